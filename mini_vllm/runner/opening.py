"""Opens a model without its KV cache, whose size depends on the whole engine."""

from functools import partial
from hashlib import sha256
from pathlib import Path

import torch

from mini_vllm.config import EngineConfig
from mini_vllm.core.cdiv import cdiv
from mini_vllm.electives.windows.window_functions import require_window_functions
from mini_vllm.runner.compiled_llama import CompiledLlama, packed_model
from mini_vllm.runner.graphs import with_graphs
from mini_vllm.runner.int8_linear import require_int8
from mini_vllm.runner.kv_transfer.disk_store import DiskBlockStore
from mini_vllm.runner.llama import paged_model
from mini_vllm.runner.loading import is_small, load_draft_model, load_model
from mini_vllm.runner.memory import size_kv_cache
from mini_vllm.runner.model_limits import served_length
from mini_vllm.runner.paged_model import ForwardPass
from mini_vllm.runner.steps import RunnerSteps
from mini_vllm.runner.threads.step_threads import StepThreads, step_threads, use_one_thread


class OpenedModel:
    """A loaded model (directory or hub name, or None for the embedded model), and the config's draft model, if any.

    `num_gpu_blocks` comes from the config or from the free memory, and includes the null block. Raises `ValueError` if
    a model cannot be found or served.
    """

    def __init__(self, model: str | None, config: EngineConfig, steps: RunnerSteps) -> None:
        self.quantization = config.quantization or ""
        self.loaded, self.tokenizer = load_model(model, config.dtype)
        if self.quantization:
            require_int8(self.loaded.device)
        self.is_small = is_small(self.loaded.model)
        use_one_thread()
        packing = partial(packed_model, is_int8=config.quantization == "int8")
        self.make_model = packing if config.prepack_weights else paged_model
        self.steps = steps
        groups = self.loaded.groups
        if groups.has_windows:
            require_window_functions(steps.windows)
        self.max_num_seqs = config.max_num_seqs
        self.records_graphs = steps.can_be_recorded and not config.enforce_eager and not groups.has_windows
        self.max_model_len = served_length(self.loaded.model.config, config.max_model_len)
        has_draft_model = config.speculative_config is not None and config.speculative_config.drafter_has_kv_cache
        self.draft_model = load_draft_model(config) if has_draft_model else None
        if has_draft_model and groups.windows[0] is not None:
            raise ValueError("a draft model needs full attention, but every layer of the model has a sliding window")
        self.num_gpu_blocks = config.num_gpu_blocks or size_kv_cache(config, self.loaded, steps, self.draft_model)

    def with_cache(self, num_blocks: int, block_size: int) -> ForwardPass:
        """Return the model with a cache of `num_blocks` blocks, including the null block.

        With the Triton kernels, decode steps run as CUDA graphs unless the config sets `enforce_eager`.
        """
        paged = self.make_model(self.loaded, self.steps, num_blocks, block_size)
        if not self.records_graphs:
            return paged
        return with_graphs(paged, self.max_num_seqs, longest_table=cdiv(self.max_model_len, block_size))

    def threads(self, paged: ForwardPass, *, has_adapters: bool) -> StepThreads | None:
        """Return the object that sets the thread count for steps on a CPU. The count varies only if the whole step is
        computed in C."""
        if self.loaded.device.type != "cpu":
            return None
        has_torch = has_adapters or self.draft_model is not None or self.loaded.groups.has_windows
        may_vary = isinstance(paged, CompiledLlama) and self.steps.ignores_threads and not has_torch
        return step_threads(is_small=self.is_small, may_vary=may_vary)

    def draft_model_with_cache(self, num_blocks: int, block_size: int) -> ForwardPass:
        """Return the draft model with a separate cache of `num_blocks` blocks."""
        assert self.draft_model is not None
        return self.make_model(self.draft_model, self.steps, num_blocks, block_size)

    def disk_store(self, path: str, max_bytes: int, block_size: int, adapters: bytes = b"") -> DiskBlockStore:
        """Return the store for this model's blocks, in a subfolder of `path` named after a digest of the weights.

        `adapters` is a digest of the served adapters, because a block's hash contains only an adapter's name.
        """
        weights = sha256(f"{self.loaded.model.config!r}{self.quantization}".encode() + adapters)
        for parameter in self.loaded.model.parameters():
            # counts only the embeddings and norms if the linear layers are packed
            weights.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return DiskBlockStore(Path(path) / weights.hexdigest()[:16], max_bytes, self.block_like(block_size))

    def block_like(self, block_size: int) -> torch.Tensor:
        """Return an empty tensor with the shape and dtype of a stored block: K and V of all layers."""
        loaded = self.loaded
        shape = (2 * loaded.num_layers, block_size, loaded.num_kv_heads, loaded.head_dim)
        return torch.empty(shape, dtype=loaded.dtype, device="meta")
