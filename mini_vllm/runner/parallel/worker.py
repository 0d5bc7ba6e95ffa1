"""A worker process: load the model, join the other ranks, keep a share of the heads, compute what rank 0 sends.

`workers.py` starts it as `python -m mini_vllm.runner.parallel.worker`.
"""

import os
import signal
from typing import IO

import torch

from mini_vllm.runner.loading import load_model
from mini_vllm.runner.memory import size_kv_cache
from mini_vllm.runner.packed_linear import pack_linear_layers
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.parallel.communicator import Communicator, LostRankError, join
from mini_vllm.runner.parallel.messages import Start, WorkerFailure, as_batch, receive, send
from mini_vllm.runner.parallel.shares import split_model


def work(orders: IO[bytes], answers: IO[bytes]) -> None:
    """Compute each batch from rank 0. Raises `EOFError` when rank 0 closes the connection."""
    start: Start = receive(orders)
    if torch.cuda.is_available():
        torch.cuda.set_device(start.rank)
    whole, _ = load_model(start.model, start.config.dtype)
    steps = start.steps_for(whole.device.type)
    send(answers, "loaded")
    communicator = Communicator(join(receive(orders), start.size), start.rank, start.size, whole.device)
    share = split_model(whole, start.rank, start.size, communicator.all_reduce)
    if start.config.prepack_weights:
        pack_linear_layers(share.model)
    send(answers, start.config.num_gpu_blocks or size_kv_cache(start.config, share, steps))
    num_blocks, block_size = receive(orders)
    model = PagedModel(share, steps.write_kv, steps.paged_attention, num_blocks, block_size)
    while True:
        model.forward(as_batch(receive(orders), model.device))


def main() -> int:
    """Serve rank 0 over standard input and output; anything printed goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches rank 0 as well, and rank 0 ends us
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        work(orders, answers)
    except (EOFError, LostRankError, BrokenPipeError):
        return 0
    except Exception as error:
        send(answers, WorkerFailure(f"{type(error).__name__}: {error}"))
        return 1
    return 0


if __name__ == "__main__":
    os._exit(main())  # at once: a normal exit spends seconds in torch while rank 0 waits
