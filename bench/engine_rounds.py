"""Rounds on an engine of this process: they take turns, the fastest counts, and forward passes are timed."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from course.terminal.options import threads_to_use
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.graphs import GraphedModel
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.paged_model_runner import PagedModelRunner
from mini_vllm.runner.steps import FlatBatch
from mini_vllm.sampling_params import SamplingParams

BATCH_SIZES = (1, 4, 16, 64)
# Without a prefix cache every round computes all of its prompts.
CONFIG = EngineConfig(num_gpu_blocks=1024, enable_prefix_caching=False, max_num_seqs=max(BATCH_SIZES))


class Timed(Protocol):
    """The result of a round; the one with the fewest seconds counts, and has the seconds of all."""

    @property
    def seconds(self) -> float: ...

    @property
    def all_seconds(self) -> list[float]: ...


R = TypeVar("R", bound=Timed)


def fastest_rounds(runs: Mapping[str, Callable[[], R]], num_rounds: int, *, warm_up: bool) -> dict[str, R]:
    """Let the runs take turns; return the fastest round of each. A warm-up round comes first and does not count."""
    best: dict[str, R] = {}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(-1 if warm_up else 0, num_rounds):
        for name, run in runs.items():
            result = run()
            if number < 0:
                continue
            seconds[name].append(result.seconds)
            if name not in best or result.seconds < best[name].seconds:  # other work only adds time
                best[name] = result
    for name, result in best.items():
        result.all_seconds.extend(seconds[name])
    return best


def build_engines(
    configs: Mapping[str, EngineConfig], lineup: Lineup, threads: int | None, model: str | None = None
) -> dict[str, LLMEngine]:
    """Build an engine for each setting. `threads` None: the engine's own choice, which is one for a small model."""
    torch.set_num_threads(threads_to_use(threads))
    engines = {name: build_engine(config, lineup, model) for name, config in configs.items()}
    if threads:
        torch.set_num_threads(threads)  # loading a small model chooses one thread
    return engines


def answer_all(engine: LLMEngine, prompts: Sequence[list[int]], params: SamplingParams) -> tuple[list[list[int]], int]:
    """Answer all prompts at once; return the output tokens of each, and the number of steps."""
    for number, prompt in enumerate(prompts):
        engine.add_request(str(number), prompt, params)
    token_ids: dict[str, list[int]] = {}
    num_steps = 0
    while engine.has_unfinished_requests():
        num_steps += 1
        token_ids |= {output.request_id: output.outputs[0].token_ids for output in engine.step() if output.finished}
    return [token_ids[str(number)] for number in range(len(prompts))], num_steps


def num_replays(runner: ModelRunner) -> int:
    """Return how many steps of a runner were played from CUDA graphs."""
    model = getattr(runner, "model", None)
    return sum(count for size, count in model.replays.items() if size) if isinstance(model, GraphedModel) else 0


def paged_model(engine: LLMEngine) -> PagedModel:
    """Return the model of an engine with phase 6, without the CUDA graphs around it."""
    assert isinstance(engine.runner, PagedModelRunner)
    model = engine.runner.model
    if isinstance(model, GraphedModel):
        model = model.model
    assert isinstance(model, PagedModel)
    return model


class ForwardClock:
    """Notes when each forward pass of a model begins and ends, in seconds of `time.perf_counter`."""

    def __init__(self, model: PagedModel) -> None:
        self.begins: list[float] = []
        self.ends: list[float] = []
        forward = model.forward

        def timed(flat: FlatBatch) -> Tensor:
            self.begins.append(time.perf_counter())
            logits = forward(flat)
            self.ends.append(time.perf_counter())
            return logits

        model.forward = timed  # type: ignore[method-assign]

    @property
    def seconds(self) -> float:
        """Seconds of all passes together."""
        return sum(self.ends) - sum(self.begins)

    def clear(self) -> None:
        self.begins.clear()
        self.ends.clear()
