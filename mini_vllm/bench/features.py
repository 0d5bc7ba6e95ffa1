"""What a feature of the engine buys on a workload made for it: the same requests with it and without it."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mini_vllm.bench.contender import Settings
from mini_vllm.bench.requests import BenchRequest, Sizes, questions_about_one_document, room_needed
from mini_vllm.bench.served import Served, inter_token_latencies, num_equal, percentile, summary, times_to_first_token
from mini_vllm.lineup import Lineup

VOCAB = range(4, 1500)
Part = Literal["kv_cache", "preemption", "prefix_cache", "chunking", "runner"]


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, its workload, what the engine is told with it and without it, and which phases it does without.

    `scale` of `make_requests` is 1 for the measurement and smaller for a quick try. `room` is the share of
    the KV cache that would hold all requests at once.
    """

    title: str
    workload: str
    make_requests: Callable[[float], list[BenchRequest]]
    with_it: Mapping[str, Any] = field(default_factory=dict)
    without: Mapping[str, Any] = field(default_factory=dict)
    absent_in_both: Sequence[Part] = ()
    absent_without: Sequence[Part] = ()
    needs: Sequence[Part] = ()
    room: float = 1.0


def _tokens(rng: random.Random, count: float) -> list[int]:
    return rng.choices(VOCAB, k=max(1, round(count)))


def questions(scale: float) -> list[BenchRequest]:
    """Make 32 questions behind the same 1,024 tokens."""
    sizes = Sizes(shared_document=max(1, round(1024 * scale)))
    return questions_about_one_document(max(4, round(32 * scale)), VOCAB.stop, sizes=sizes)


def documents_among_chats(scale: float) -> list[BenchRequest]:
    """Make 8 chats that talk for long, and 8 documents of 1,536 tokens that arrive one after the other meanwhile."""
    rng = random.Random("chunked")
    chats = [BenchRequest(_tokens(rng, 16), max(8, round(256 * scale))) for _ in range(8)]
    documents = [BenchRequest(_tokens(rng, 1536 * scale), 4, 0.1 * number) for number in range(1, 9)]
    return chats + documents


def answers_of_unknown_length(scale: float) -> list[BenchRequest]:
    """Make 32 requests that may say 512 tokens and mostly end long before."""
    rng = random.Random("preemption")
    limit = max(16, round(512 * scale))
    lengths = [round(limit * rng.random() ** 3) + 4 for _ in range(max(6, round(32 * scale)))]
    return [BenchRequest(_tokens(rng, 32), min(length, limit), limit=limit) for length in lengths]


FEATURES = {
    "prefix": Feature(
        "Prefix caching",
        "32 questions behind the same document of 1,024 tokens",
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
        "32 requests that may say 512 tokens and mostly end before, in a fifth of the memory",
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
class Comparison:
    """The best rounds with and without a feature, on the same requests."""

    feature: Feature
    requests: list[BenchRequest]
    with_it: Served
    without: Served
    num_threads: int

    @property
    def same_tokens(self) -> tuple[int, int]:
        return num_equal(self.with_it, self.without)

    def figures(self) -> dict[str, tuple[float, float]]:
        """Return (with, without) for each figure; all but the first are seconds."""
        pairs = (self.with_it, self.without)
        first = [times_to_first_token(self.requests, served) for served in pairs]
        gaps = [inter_token_latencies(served) for served in pairs]
        return {
            "output tokens per second": _pair([served.tokens_per_second for served in pairs]),
            "first token, median": _pair([percentile(values, 50) for values in first]),
            "first token, p99": _pair([percentile(values, 99) for values in first]),
            "between tokens, median": _pair([percentile(values, 50) for values in gaps]),
            "between tokens, p99": _pair([percentile(values, 99) for values in gaps]),
        }


def _pair(values: list[float]) -> tuple[float, float]:
    with_it, without = values
    return with_it, without


def measure_feature(
    name: str,
    lineup: Lineup,
    scale: float = 1.0,
    num_rounds: int = 3,
    num_threads: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Run a feature's workload in turns with it and without it; each side's quickest round counts.

    Every round has engines of its own, so that no cache outlives it. Imports torch. Raises `ValueError`
    if the lineup lacks what it takes.
    """
    import torch

    from mini_vllm.bench.ours import Ours

    feature = FEATURES[name]
    require_phases(lineup, feature)
    whole = without_parts(lineup, feature.absent_in_both)
    sides = {
        "with it": (whole, feature.with_it),
        "without": (without_parts(whole, feature.absent_without), feature.without),
    }
    requests = feature.make_requests(scale)
    room = round(feature.room * max(room_needed(requests), 1024))
    longest = max(len(request.prompt) + (request.limit or request.num_output_tokens) for request in requests)
    settings = Settings("", num_threads=num_threads, kv_cache_tokens=max(room, 2 * longest))
    best: dict[str, Served] = {}
    for number in range(num_rounds):
        for side, (team, config) in sides.items():
            say(f"{feature.title}: {side}, round {number + 1} of {num_rounds}")
            engine = Ours(replace(settings, lineup=str(team)), **config)
            torch.set_num_threads(settings.num_threads)  # loading a small model chooses one thread
            served = engine.serve(requests, lambda count: None)
            if side not in best or served.seconds < best[side].seconds:
                best[side] = served
    return Comparison(feature, requests, best["with it"], best["without"], num_threads)


def without_parts(lineup: Lineup, parts: Sequence[Part]) -> Lineup:
    """Return the lineup with some parts absent."""
    absent: dict[str, Any] = dict.fromkeys(parts, "absent")
    return replace(lineup, **absent)


def require_phases(lineup: Lineup, feature: Feature) -> None:
    """Raise `ValueError` if a part that the measurement needs is absent."""
    missing = [part for part in ("runner", *feature.needs) if getattr(lineup, part) == "absent"]
    if missing:
        raise ValueError(f"{feature.title} cannot be measured with the lineup {lineup}: {', '.join(missing)} absent")


def as_record(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison for programs. Ratios are with over without."""
    same, both = comparison.same_tokens

    def half(served: Served, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"settings": dict(config), **summary(comparison.requests, served)}

    return {
        "workload": comparison.feature.workload,
        "num_threads": comparison.num_threads,
        "with": half(comparison.with_it, comparison.feature.with_it),
        "without": half(comparison.without, comparison.feature.without),
        "ratios": {name: one / other for name, (one, other) in comparison.figures().items()},
        "equal_requests": [same, both],
    }
