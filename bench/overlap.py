"""What planning costs, and how much of it is hidden: the same requests with a step in flight and without."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from torch import nn

from bench.models import save_random_model
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.graphs import GraphedModel
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.paged_model_runner import PagedModelRunner
from mini_vllm.sampling_params import SamplingParams

BATCH_SIZES = (1, 4, 16, 64)
EMBEDDED, LARGER = "embedded model", "150 M model, random weights"
NUM_TOKENS = {EMBEDDED: 96, LARGER: 16}
PROMPT_LENGTH = 32
IN_TURN, OVERLAPPED = "in turn", "overlapped"


class ForwardClock:
    """Notes when each forward pass of a model begins and ends, in seconds."""

    def __init__(self, model: nn.Module) -> None:
        self.begins: list[float] = []
        self.ends: list[float] = []
        model.register_forward_pre_hook(lambda *parts: self.begins.append(time.perf_counter()))
        model.register_forward_hook(lambda *parts: self.ends.append(time.perf_counter()))

    def clear(self) -> None:
        self.begins.clear()
        self.ends.clear()


@dataclass(frozen=True)
class Timed:
    """One round: seconds of all of it, of its forward passes, and from the first of them to the last."""

    seconds: float
    forward_seconds: float
    span_seconds: float
    num_passes: int
    token_ids: list[list[int]]

    @property
    def tokens_per_second(self) -> float:
        return sum(map(len, self.token_ids)) / self.seconds

    @property
    def gap_ms(self) -> float:
        """Milliseconds between two forward passes."""
        return 1000 * (self.span_seconds - self.forward_seconds) / max(1, self.num_passes - 1)

    @property
    def share_between(self) -> float:
        """Share of the time that is not a forward pass."""
        return 1 - self.forward_seconds / self.span_seconds


@dataclass(frozen=True)
class OverlapCase:
    """A model at a batch size, in both ways."""

    model: str
    batch_size: int
    timed: dict[str, Timed]

    @property
    def speedup(self) -> float:
        return self.timed[OVERLAPPED].tokens_per_second / self.timed[IN_TURN].tokens_per_second

    @property
    def same_tokens(self) -> bool:
        return self.timed[OVERLAPPED].token_ids == self.timed[IN_TURN].token_ids

    def record(self) -> dict[str, Any]:
        """Return the figures as JSON, without the tokens."""
        timed = {
            way: {
                "tokens_per_second": one.tokens_per_second,
                "seconds": one.seconds,
                "forward_seconds": one.forward_seconds,
                "span_seconds": one.span_seconds,
                "num_passes": one.num_passes,
                "gap_ms": one.gap_ms,
                "share_between": one.share_between,
            }
            for way, one in self.timed.items()
        }
        return {"model": self.model, "batch_size": self.batch_size, "same_tokens": self.same_tokens, "timed": timed}


def measure_overlap(
    lineup: Lineup,
    batch_sizes: Sequence[int],
    models: Sequence[str],
    num_rounds: int,
    report: Callable[[str], object],
) -> Iterator[OverlapCase]:
    """Measure each model at each batch size; the two ways take turns, and the fastest round of each counts."""
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            report(f"{model}: loading")
            path = None if model == EMBEDDED else str(save_random_model(Path(folder) / "larger"))
            engines = {way: make_engine(lineup, path, is_async=way == OVERLAPPED) for way in (IN_TURN, OVERLAPPED)}
            clocks = {way: ForwardClock(torch_model(engine)) for way, engine in engines.items()}
            for batch_size in batch_sizes:
                report(f"{model}, batch {batch_size}")
                best: dict[str, Timed] = {}
                for number in range(num_rounds + 1):  # the first one warms up
                    for way, engine in engines.items():
                        timed = serve(engine, clocks[way], batch_size, NUM_TOKENS[model])
                        if number == 1 or (number > 1 and timed.seconds < best[way].seconds):
                            best[way] = timed
                yield OverlapCase(model, batch_size, best)


def make_engine(lineup: Lineup, model: str | None, *, is_async: bool) -> LLMEngine:
    """Return an engine without a prefix cache, so that every round computes all of it."""
    config = EngineConfig(
        num_gpu_blocks=1024,
        enable_prefix_caching=False,
        max_num_seqs=max(BATCH_SIZES),
        max_model_len=512,
        async_scheduling=is_async,
    )
    return build_engine(config, lineup, model)


def torch_model(engine: LLMEngine) -> Any:
    """Return the torch module of an engine's runner."""
    assert isinstance(engine.runner, PagedModelRunner)
    paged = engine.runner.model
    if isinstance(paged, GraphedModel):
        paged = paged.model
    assert isinstance(paged, PagedModel)
    return paged.model


def serve(engine: LLMEngine, clock: ForwardClock, batch_size: int, num_tokens: int) -> Timed:
    """Generate `num_tokens` tokens for each of `batch_size` prompts, all at once."""
    rng, params = Random(batch_size), SamplingParams(max_tokens=num_tokens, ignore_eos=True)
    for number in range(batch_size):
        prompt = [rng.randrange(5, engine.runner.vocab_size) for _ in range(PROMPT_LENGTH)]
        engine.add_request(str(number), prompt, params)
    clock.clear()
    token_ids: dict[str, list[int]] = {}
    started = time.perf_counter()
    while engine.has_unfinished_requests():
        token_ids |= {output.request_id: output.outputs[0].token_ids for output in engine.step() if output.finished}
    seconds = time.perf_counter() - started
    forward = sum(end - begin for begin, end in zip(clock.begins, clock.ends, strict=True))
    answers = [token_ids[str(number)] for number in range(batch_size)]
    return Timed(seconds, forward, clock.ends[-1] - clock.begins[0], len(clock.ends), answers)
