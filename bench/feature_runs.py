"""The gain from a feature of the engine: the same requests with it and without it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bench.backend import Settings
from bench.features import FEATURES, Feature, Part
from bench.requests import longest, room_needed
from bench.served import Served, inter_token_latencies, num_equal, percentile, summary, times_to_first_token
from course.workloads.timed_request import TimedRequest
from mini_vllm.assembly.lineup import Lineup


@dataclass(frozen=True, slots=True)
class Comparison:
    """The best rounds with and without a feature, on the same requests."""

    feature: Feature
    requests: list[TimedRequest]
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
    on_progress: Callable[[str, int, int], None] = lambda text, done, total: None,
) -> Comparison:
    """Run a feature's workload with it and without it in turns; each side's fastest round counts.

    Every round has new engines, so no cache outlives it. Imports torch. Raises `ValueError` if the lineup lacks
    a phase that the feature needs.
    """
    import torch

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
    settings = Settings("", num_threads=num_threads, kv_cache_tokens=max(room, 2 * longest(requests)))
    best: dict[str, Served] = {}
    for number in range(num_rounds):
        for side, (team, config) in sides.items():
            report = partial(_report, on_progress, f"{side}, round {number + 1} of {num_rounds}", len(requests))
            report(0)
            engine = MiniVllmBackend(replace(settings, lineup=str(team)), **config)
            torch.set_num_threads(settings.num_threads)  # loading a small model chooses one thread
            served = engine.serve(requests, report)
            if side not in best or served.seconds < best[side].seconds:
                best[side] = served
    return Comparison(feature, requests, best["with it"], best["without"], num_threads)


def _report(on_progress: Callable[[str, int, int], None], text: str, total: int, done: int) -> None:
    on_progress(text, done, total)


def for_whole_prompts(feature: Feature, num_tokens: int) -> Feature:
    """Return the feature for a lineup without chunked prefill: the budget holds the longest request."""
    budget = max(num_tokens, Settings("").max_num_batched_tokens)
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


def as_record(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as a JSON object. Ratios are with over without."""
    same, both = comparison.same_tokens

    def half(served: Served, config: Mapping[str, Any]) -> dict[str, Any]:
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
