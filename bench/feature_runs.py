"""The gain from a feature of the engine: the same requests with it and without it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from bench.backend import BackendSettings
from bench.features import FEATURES, Feature, Part
from bench.requests import longest, room_needed
from bench.served import ServedRound, num_equal, summary
from course.terminal.progress import Report
from course.workloads.timed_request import TimedRequest
from mini_vllm.assembly.lineup import Lineup


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
    report: Report = lambda text, done=0, total=0: None,
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
        return engine.serve(requests, lambda done: report(text, done, len(requests)))

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
