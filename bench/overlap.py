"""What planning costs, and how much of it is hidden: the same requests with a step in flight and without."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from torch import get_num_threads

from bench.engine_rounds import CONFIG, ForwardClock, answer_all, build_engines, fastest_rounds, paged_model
from bench.models import save_random_model
from course.terminal.progress import ProgressReport
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.sampling_params import SamplingParams

EMBEDDED, LARGER = "embedded model", "150 M model, random weights"
NUM_TOKENS = {EMBEDDED: 96, LARGER: 16}  # a step of the larger one takes far longer
PROMPT_LENGTH = 32
IN_TURN, OVERLAPPED = "in turn", "overlapped"


@dataclass(frozen=True)
class OverlapRound:
    """One round: seconds of all of it, of its forward passes, and from the first of them to the last."""

    seconds: float
    forward_seconds: float
    span_seconds: float
    num_passes: int
    token_ids: list[list[int]]
    all_seconds: list[float] = field(default_factory=list)

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
    timed: dict[str, OverlapRound]
    num_threads: int

    @property
    def speedup(self) -> float:
        return self.timed[OVERLAPPED].tokens_per_second / self.timed[IN_TURN].tokens_per_second

    @property
    def same_tokens(self) -> bool:
        return self.timed[OVERLAPPED].token_ids == self.timed[IN_TURN].token_ids

    def record(self) -> dict[str, Any]:
        """Return the figures as JSON, without the tokens."""
        timed: dict[str, Any] = {}
        for way, one in self.timed.items():
            figures = {name: getattr(one, name) for name in ("tokens_per_second", "gap_ms", "share_between")}
            timed[way] = {**asdict(one), **figures}
            del timed[way]["token_ids"]
        case = {name: getattr(self, name) for name in ("model", "batch_size", "num_threads", "same_tokens")}
        return {**case, "timed": timed}


def measure_overlap(
    lineup: Lineup,
    threads: int | None,
    batch_sizes: Sequence[int],
    models: Sequence[str],
    num_rounds: int,
    report: ProgressReport,
) -> Iterator[OverlapCase]:
    """Measure each model at each batch size; the two ways take turns, and the fastest round of each counts."""
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            report(f"{model}: loading")
            path = None if model == EMBEDDED else str(save_random_model(Path(folder) / "larger"))
            in_turn = replace(CONFIG, max_model_len=512)
            configs = {IN_TURN: in_turn, OVERLAPPED: replace(in_turn, async_scheduling=True)}
            engines = build_engines(configs, lineup, threads, path)
            clocks = {way: ForwardClock(paged_model(engine)) for way, engine in engines.items()}
            for batch_size in batch_sizes:
                report(f"{model}, batch {batch_size}")
                runs = {
                    way: partial(serve, engine, clocks[way], batch_size, NUM_TOKENS[model])
                    for way, engine in engines.items()
                }
                timed = fastest_rounds(runs, num_rounds, warm_up=True)
                yield OverlapCase(model, batch_size, timed, get_num_threads())


def serve(engine: LLMEngine, clock: ForwardClock, batch_size: int, num_tokens: int) -> OverlapRound:
    """Generate `num_tokens` tokens for each of `batch_size` prompts, all at once."""
    rng, vocabulary = Random(batch_size), range(5, engine.runner.vocab_size)
    prompts = [[rng.choice(vocabulary) for _ in range(PROMPT_LENGTH)] for _ in range(batch_size)]
    clock.clear()
    started = time.perf_counter()
    token_ids, _ = answer_all(engine, prompts, SamplingParams(max_tokens=num_tokens, ignore_eos=True))
    seconds = time.perf_counter() - started
    return OverlapRound(seconds, clock.seconds, clock.ends[-1] - clock.begins[0], len(clock.ends), token_ids)
