"""`python -m mini_vllm.assembly.prefill_process PORT` computes prompts for a decode engine and sends their blocks.

The parent process sends the config, lineup and model, pickled, through standard input. This process exits with its
parent.
"""

import os
import pickle
import signal
import sys
from dataclasses import replace
from threading import Thread

from mini_vllm.assembly.build import build_engine
from mini_vllm.config import KVTransferConfig
from mini_vllm.runner.kv_transfer.peer import serve
from mini_vllm.sampling_params import SamplingParams


def main(port: int) -> None:
    """Serve until the decode engine's process has exited."""
    # both processes receive Ctrl-C, and the decode engine decides when to stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config, lineup, model = pickle.load(sys.stdin.buffer)
    Thread(target=end_with_parent, daemon=True).start()
    transfer = KVTransferConfig("host", config.kv_transfer_config.kv_buffer_size)
    plain = replace(config, kv_transfer_config=transfer, speculative_config=None, async_scheduling=False)
    engine = build_engine(plain, lineup, model)
    assert engine.transfers is not None

    def compute(token_ids: list[int]) -> None:
        engine.add_request("prompt", token_ids, SamplingParams(1, 0.0))
        while engine.has_unfinished_requests():
            engine.step()

    serve(port, compute, engine.transfers.store)


def end_with_parent() -> None:
    """End this process when standard input closes, even while the process is opening the model or connecting."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
