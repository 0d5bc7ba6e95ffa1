"""The gain from a feature of the engine: the same requests, on a workload made for it, with it and without it."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Literal

from bench.backend import ALL_GREEDY, BackendSettings, ServedRound, num_equal, summary
from bench.plan import Sizes, longest, questions_about_one_document, room_needed
from course.terminal.charts import duration
from course.terminal.progress import ProgressReport, unreported
from course.workloads.timed_request import TimedRequest
from mini_vllm.assembly.lineup import Lineup

VOCAB = range(4, 1500)  # 0 to 3 are special tokens
Part = Literal["kv_cache", "preemption", "prefix_cache", "chunking", "runner"]


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, its workload, the settings with it and without it, and the parts that are absent.

    `scale` of `make_requests` is 1 for the measurement and smaller for a quick run. `room` is the KV cache size
    as a share of what would hold all requests at once.
    """

    title: str
    workload: str
    make_requests: Callable[[float], list[TimedRequest]]
    with_it: Mapping[str, Any] = field(default_factory=dict)
    without: Mapping[str, Any] = field(default_factory=dict)
    absent_in_both: Sequence[Part] = ()
    absent_without: Sequence[Part] = ()
    needs: Sequence[Part] = ()
    room: float = 1.0


def _tokens(rng: random.Random, count: float) -> list[int]:
    return rng.choices(VOCAB, k=max(1, round(count)))


def questions(scale: float) -> list[TimedRequest]:
    """Make 32 questions that share a prefix of 1,024 tokens."""
    sizes = Sizes(shared_document=max(1, round(1024 * scale)))
    return questions_about_one_document(max(4, round(32 * scale)), VOCAB.stop, sizes=sizes)


def documents_among_chats(scale: float) -> list[TimedRequest]:
    """Make 8 chats with long outputs, and 8 documents of 1,536 tokens that arrive one by one meanwhile."""
    rng = random.Random("chunked")
    chats = [TimedRequest(0.0, f"chat {n}", _tokens(rng, 16), max(8, round(256 * scale))) for n in range(8)]
    documents = [TimedRequest(0.1 * n, f"document {n}", _tokens(rng, 1536 * scale), 4) for n in range(1, 9)]
    return chats + documents


def answers_of_unknown_length(scale: float) -> list[TimedRequest]:
    """Make 32 requests with a limit of 512 output tokens that mostly finish much earlier."""
    rng = random.Random("preemption")
    limit = max(16, round(512 * scale))
    lengths = [round(limit * rng.random() ** 3) + 4 for _ in range(max(6, round(32 * scale)))]  # cubed: most end early
    return [
        TimedRequest(0.0, str(n), _tokens(rng, 32), limit, output_len=min(length, limit))
        for n, length in enumerate(lengths)
    ]


FEATURES = {
    "prefix": Feature(
        "Prefix caching",
        "32 questions that share a document of 1,024 tokens",
        questions,
        without={"enable_prefix_caching": False},
        needs=("prefix_cache",),
    ),
    "chunked": Feature(
        "Chunked prefill",
        "8 chats that decode while 8 documents of 1,536 tokens arrive",
        documents_among_chats,
        with_it={"max_num_batched_tokens": 128},
        without={"max_num_batched_tokens": 2048, "enable_chunked_prefill": False},
        needs=("chunking",),
    ),
    "preemption": Feature(
        "Blocks on demand and preemption",
        "32 requests of up to 512 tokens, most of which end earlier, in a fifth of the memory",
        answers_of_unknown_length,
        with_it={"max_num_batched_tokens": 2048},
        without={"max_num_batched_tokens": 2048},
        absent_in_both=("prefix_cache", "chunking"),
        absent_without=("kv_cache", "preemption"),
        needs=("kv_cache", "preemption"),
        room=0.2,
    ),
}


@dataclass(frozen=True, slots=True)
class FeatureComparison:
    """The best rounds with and without a feature, on the same requests."""

    feature: Feature
    requests: list[TimedRequest]
    with_it: ServedRound
    without: ServedRound
    num_threads: int

    @property
    def same_tokens(self) -> tuple[int, int]:
        return num_equal(self.with_it, self.without)

    def figures(self) -> dict[str, tuple[float, float]]:
        """Return (with, without) for each figure; all but the first are seconds."""
        one, other = (summary(self.requests, served) for served in (self.with_it, self.without))
        pairs = {"output tokens per second": (one["output_tokens_per_second"], other["output_tokens_per_second"])}
        for words, name in (("first token", "time_to_first_token"), ("between tokens", "inter_token_latency")):
            pairs[f"{words}, median"] = (one[name]["p50"], other[name]["p50"])
            pairs[f"{words}, p99"] = (one[name]["p99"], other[name]["p99"])
        return pairs


def measure_feature(
    name: str,
    lineup: Lineup,
    scale: float = 1.0,
    num_rounds: int = 3,
    num_threads: int = 1,
    report: ProgressReport = unreported,
) -> FeatureComparison:
    """Run a feature's workload with it and without it in turns; each side's fastest round counts.

    Every round has new engines, so no cache outlives it. Imports torch. Raises `ValueError` if the lineup lacks
    a phase that the feature needs.
    """
    import torch

    from bench.engine_rounds import fastest_rounds
    from bench.mini_vllm_backend import MiniVllmBackend

    feature = FEATURES[name]
    require_phases(lineup, feature)
    requests = feature.make_requests(scale)
    if lineup.chunking == "absent":
        feature = for_whole_prompts(feature, longest(requests))
    whole = without_parts(lineup, feature.absent_in_both)
    sides = {
        "with it": (whole, feature.with_it),
        "without": (without_parts(whole, feature.absent_without), feature.without),
    }
    room = round(feature.room * max(room_needed(requests), 1024))
    settings = BackendSettings("", num_threads=num_threads, kv_cache_tokens=max(room, 2 * longest(requests)))
    numbers = {side: count(1) for side in sides}

    def serve(side: str) -> ServedRound:
        team, config = sides[side]
        text = f"{side}, round {next(numbers[side])} of {num_rounds}"
        report(text, 0, len(requests))
        engine = MiniVllmBackend(replace(settings, lineup=str(team)), **config)
        torch.set_num_threads(settings.num_threads)  # loading a small model chooses one thread
        served = engine.serve(requests, lambda done: report(text, done, len(requests)), ALL_GREEDY)
        rate = f"{served.tokens_per_second:,.0f} tokens/s"
        report(text, len(requests), len(requests), f"{text}: {duration(served.seconds)}, {rate}")
        return served

    best = fastest_rounds({side: partial(serve, side) for side in sides}, num_rounds, warm_up=False)
    return FeatureComparison(feature, requests, best["with it"], best["without"], num_threads)


def for_whole_prompts(feature: Feature, num_tokens: int) -> Feature:
    """Return the feature for a lineup without chunked prefill: the budget holds the longest request."""
    budget = max(num_tokens, BackendSettings("").max_num_batched_tokens)
    limits = {"max_num_batched_tokens": budget, "max_model_len": num_tokens}
    return replace(feature, with_it={**limits, **feature.with_it}, without={**limits, **feature.without})


def without_parts(lineup: Lineup, parts: Sequence[Part]) -> Lineup:
    """Return the lineup with some parts absent."""
    absent: dict[str, Any] = dict.fromkeys(parts, "absent")
    return replace(lineup, **absent)


def require_phases(lineup: Lineup, feature: Feature) -> None:
    """Raise `ValueError` if a part that the measurement needs is absent."""
    missing = [part for part in ("runner", *feature.needs) if getattr(lineup, part) == "absent"]
    if missing:
        raise ValueError(f"{feature.title} cannot be measured with the lineup {lineup}: {', '.join(missing)} absent")


def as_record(comparison: FeatureComparison) -> dict[str, Any]:
    """Return a comparison as a JSON object. Ratios are with over without."""
    same, both = comparison.same_tokens

    def half(served: ServedRound, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"settings": dict(config), **summary(comparison.requests, served)}

    return {
        "workload": comparison.feature.workload,
        "num_threads": comparison.num_threads,
        "absent_without": list(comparison.feature.absent_without),
        "with": half(comparison.with_it, comparison.feature.with_it),
        "without": half(comparison.without, comparison.feature.without),
        "ratios": {name: one / other for name, (one, other) in comparison.figures().items()},
        "equal_requests": [same, both],
    }
