"""Rank 0: its own share of the model, and the workers with the other shares."""

import torch
from torch import Tensor

from mini_vllm.config import EngineConfig
from mini_vllm.runner.host import share_threads
from mini_vllm.runner.loading import LoadedModel, load_model
from mini_vllm.runner.memory import size_kv_cache
from mini_vllm.runner.model_tokenizer import ModelTokenizer
from mini_vllm.runner.packed_linear import pack_linear_layers
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.parallel.communicator import Communicator, LostRankError, meeting_point
from mini_vllm.runner.parallel.messages import Start, as_arrays
from mini_vllm.runner.parallel.shares import require_even_split, split_model
from mini_vllm.runner.parallel.workers import Workers
from mini_vllm.runner.steps import FlatBatch, RunnerSteps, StepsFor


class TensorParallelModel:
    """A `ForwardPass` on several ranks. An error on any rank ends it: build a new engine."""

    def __init__(self, share: PagedModel, workers: Workers) -> None:
        self.share = share
        self.workers = workers
        self.device, self.vocab_size, self.block_size = share.device, share.vocab_size, share.block_size

    def forward(self, flat: FlatBatch) -> Tensor:
        """Compute a step on all ranks; return the logits of the rows in `logits_indices` [S, vocab].

        Raises `WorkerError` if a worker has exited; errors on rank 0 are raised unchanged.
        """
        self.workers.send(as_arrays(flat))
        try:
            return self.share.forward(flat)
        except LostRankError as error:
            raise self.workers.post_mortem() from error
        except BaseException as error:
            self.workers.stop(f"rank 0: {type(error).__name__}: {error}")  # they wait for rank 0
            raise

    def shutdown(self) -> None:
        """End the workers. They also end when this object is deleted or Python exits."""
        self.workers.stop()


class SplitModel:
    """A model whose shares are loaded, without its KV cache. It has no draft model."""

    draft_model: LoadedModel | None = None

    def __init__(self, model: str | None, config: EngineConfig, steps_for: StepsFor, steps: RunnerSteps) -> None:
        """Load `model` on `config.tensor_parallel_size` ranks; phase 6 is `steps` here, `steps_for` there.

        Raises `ValueError` if it cannot be loaded or split, `WorkerError` if a worker does not start.
        """
        size = config.tensor_parallel_size
        require_gpus(size)
        self.steps = steps
        self.workers = Workers(size, num_threads=share_threads(size))
        try:
            self.workers.send_each([Start(model, config, steps_for, rank, size) for rank in range(1, size)])
            self.share, self.tokenizer = self._load(model, config)
            self.max_model_len = self.share.max_model_len
            self.num_gpu_blocks = config.num_gpu_blocks or size_kv_cache(config, self.share, steps)
            self.num_gpu_blocks = min(self.num_gpu_blocks, *self.workers.receive())
        except LostRankError as error:
            raise self.workers.post_mortem() from error
        except BaseException:
            self.workers.stop()
            raise

    def _load(self, model: str | None, config: EngineConfig) -> tuple[LoadedModel, ModelTokenizer]:
        size = config.tensor_parallel_size
        whole, tokenizer = load_model(model, config.dtype)
        require_even_split(whole.model.config, size)
        self.workers.receive()
        store = meeting_point(size)
        self.workers.send(store.port)
        communicator = Communicator(store, 0, size, whole.device)
        share = split_model(whole, 0, size, communicator.all_reduce)
        if config.prepack_weights:
            pack_linear_layers(share.model)
        return share, tokenizer

    def with_cache(self, num_blocks: int, block_size: int) -> TensorParallelModel:
        """Give every rank the cache of its K/V heads: `num_blocks` blocks, null block included."""
        self.workers.send((num_blocks, block_size))
        steps = self.steps
        own = PagedModel(self.share, steps.write_kv, steps.paged_attention, num_blocks, block_size)
        return TensorParallelModel(own, self.workers)


def require_gpus(size: int) -> None:
    """Raise `ValueError` if there are GPUs, but fewer than ranks. Without a GPU all ranks compute on the CPU."""
    if torch.cuda.is_available() and torch.cuda.device_count() < size:
        raise ValueError(f"tensor_parallel_size {size} needs as many GPUs, there are {torch.cuda.device_count()}")
