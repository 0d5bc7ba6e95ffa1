"""Open a model by name, on one device or split over several ranks."""

from typing import Protocol

from mini_vllm.config import EngineConfig
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.runner.graphs import with_graphs
from mini_vllm.runner.loading import LoadedModel, load_draft_model, load_model, pick_device
from mini_vllm.runner.memory import size_kv_cache
from mini_vllm.runner.paged_model import ForwardPass, PagedModel
from mini_vllm.runner.steps import RunnerSteps, StepsFor


class OpenedModel(Protocol):
    """A loaded model without its KV cache, whose size depends on the whole engine."""

    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def steps(self) -> RunnerSteps: ...
    @property
    def max_model_len(self) -> int: ...
    @property
    def num_gpu_blocks(self) -> int:
        """Number of blocks from the config, else what the memory allows; null block included."""
        ...

    @property
    def draft_model(self) -> LoadedModel | None: ...
    def with_cache(self, num_blocks: int, block_size: int) -> ForwardPass: ...


class WholeModel:
    """A model on one device."""

    def __init__(self, model: str | None, config: EngineConfig, steps: RunnerSteps) -> None:
        self.loaded, self.tokenizer = load_model(model, config.dtype, prepack_weights=config.prepack_weights)
        self.steps = steps
        self.max_num_seqs = config.max_num_seqs
        self.records_graphs = steps.can_be_recorded and not config.enforce_eager
        self.max_model_len = config.max_model_len or self.loaded.max_model_len
        self.draft_model = load_draft_model(config) if has_draft_model(config) else None
        self.num_gpu_blocks = config.num_gpu_blocks or size_kv_cache(config, self.loaded, steps, self.draft_model)

    def with_cache(self, num_blocks: int, block_size: int) -> ForwardPass:
        """Return the model over a cache of `num_blocks` blocks, null block included.

        With the Triton kernels decode steps become CUDA graphs, unless the config sets `enforce_eager`.
        """
        paged = PagedModel(self.loaded, self.steps.write_kv, self.steps.paged_attention, num_blocks, block_size)
        if not self.records_graphs:
            return paged
        return with_graphs(paged, self.max_num_seqs, longest_table=cdiv(self.max_model_len, block_size))


def has_draft_model(config: EngineConfig) -> bool:
    """Return whether the config asks for drafts from a model."""
    return config.speculative_config is not None and config.speculative_config.drafter_has_kv_cache


def draft_model_with_cache(opened: OpenedModel, num_blocks: int, block_size: int) -> ForwardPass:
    """Return the draft model of an opened one over a cache of its own with the same blocks."""
    assert opened.draft_model is not None
    return PagedModel(opened.draft_model, opened.steps.write_kv, opened.steps.paged_attention, num_blocks, block_size)


def open_model(model: str | None, config: EngineConfig, steps_for: StepsFor) -> OpenedModel:
    """Load `model` (a directory or hub name; None is the embedded one) for phase 6.

    Raises `ValueError` if it cannot be found, served, or split over `config.tensor_parallel_size` ranks.
    """
    steps = steps_for(pick_device().type)
    if config.tensor_parallel_size == 1:
        return WholeModel(model, config, steps)
    if has_draft_model(config):
        config.require_one_rank("the draft model runs on one rank")
    from mini_vllm.runner.parallel.model import SplitModel

    return SplitModel(model, config, steps_for, steps)
