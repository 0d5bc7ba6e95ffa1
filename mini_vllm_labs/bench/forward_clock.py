"""Times the forward passes of an engine's model."""

import time

from torch import Tensor

from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.drafts.drafting_runner import DraftingRunner
from mini_vllm.runner.graphs import GraphedModel
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.paged_model_runner import PagedModelRunner
from mini_vllm.runner.steps import FlatBatch


def num_replays(runner: ModelRunner) -> int:
    """Return how many steps a runner has replayed from CUDA graphs."""
    model = getattr(runner, "model", None)
    return sum(count for size, count in model.replays.items() if size) if isinstance(model, GraphedModel) else 0


def paged_model(engine: LLMEngine) -> PagedModel:
    """Return the model of an engine that includes phase 6, without the wrappers for drafting and CUDA graphs."""
    runner = engine.runner.inner if isinstance(engine.runner, DraftingRunner) else engine.runner
    assert isinstance(runner, PagedModelRunner)
    model = runner.model
    if isinstance(model, GraphedModel):
        model = model.model
    assert isinstance(model, PagedModel)
    return model


class ForwardClock:
    """Measures forward passes: their total time and number, when the first one began and when the last one ended.

    `began` and `ended` are `time.perf_counter` readings, in seconds.
    """

    def __init__(self, model: PagedModel) -> None:
        self.began = self.ended = self.seconds = 0.0
        self.num_passes = 0
        forward = model.forward

        def timed(flat: FlatBatch) -> Tensor:
            began = time.perf_counter()
            logits = forward(flat)
            self.ended = time.perf_counter()
            self.began = self.began or began
            self.seconds += self.ended - began
            self.num_passes += 1
            return logits

        model.forward = timed  # type: ignore[method-assign]

    def clear(self) -> None:
        self.began = self.ended = self.seconds = 0.0
        self.num_passes = 0
