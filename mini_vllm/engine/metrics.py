"""Presents an engine's counts as vLLM's `LLM.get_metrics()` does, and logs them in vLLM's format.

vLLM: `v1/metrics/reader.py`, and `LoggingStatLogger` of `v1/metrics/loggers.py`.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from mini_vllm.engine.counts import COUNTERS, DEFERRED, GAUGES, HISTOGRAMS, Counts
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import DraftStatistics, StepObserver, StepResult

DRAFT_COUNTERS = {
    "spec_decode_num_drafts": "Requests with drafts in a step.",
    "spec_decode_num_draft_tokens": "Draft tokens verified.",
    "spec_decode_num_accepted_tokens": "Draft tokens accepted.",
    "spec_decode_num_accepted_tokens_per_pos": "Draft tokens accepted by position.",
}
ABOUT = GAUGES | COUNTERS | DRAFT_COUNTERS | {name: about for name, (about, _) in HISTOGRAMS.items()}
ABOUT |= {
    "num_requests_waiting_by_reason": "Waiting requests: for room (capacity), or passed over (deferred).",
    "prompt_tokens_by_source": "Tokens of prompts, by where their K and V came from.",
    "admission_rejections": "Requests that found the waiting queue full.",
}
ABOUT |= {"request_success": "Requests that ended.", "cache_config_info": "The cache's settings, as labels."}
LOG_SECONDS = 10.0
logger = logging.getLogger(__name__)


@dataclass
class Metric:
    """One metric; labels distinguish metrics with the same name."""

    name: str
    labels: dict[str, str]


@dataclass
class Counter(Metric):
    """A number that only increases."""

    value: int


@dataclass
class Vector(Metric):
    """Counters indexed by position."""

    values: list[int]


@dataclass
class Gauge(Metric):
    """A number that can increase and decrease."""

    value: float


@dataclass
class Histogram(Metric):
    """The `count` and `sum` of values; `buckets` maps each bound, as a string, to the number at or below it."""

    count: int
    sum: float
    buckets: dict[str, int]


def get_metrics_snapshot(counts: Counts, model_name: str) -> Iterator[Metric]:
    """Yield every metric with the labels `model_name` and `engine` (always 0, because there is one engine)."""
    labels = {"model_name": model_name, "engine": "0"}
    gauges = counts.gauges  # read only once, because the engine's thread replaces them
    for name in GAUGES:
        yield Gauge(f"vllm:{name}", labels, gauges[name])
    deferred = gauges[DEFERRED]
    for reason, level in {"capacity": gauges["num_requests_waiting"] - deferred, "deferred": deferred}.items():
        yield Gauge("vllm:num_requests_waiting_by_reason", {**labels, "reason": reason}, level)
    yield Gauge("vllm:cache_config_info", {**counts.cache_config, "engine": "0"}, 1.0)
    for name, number in counts.counters.items():
        yield Counter(f"vllm:{name}", labels, number)
    for source, number in counts.prompt_tokens_by_source.items():
        yield Counter("vllm:prompt_tokens_by_source", {**labels, "source": source}, number)
    rejected = {"model_name": model_name, "reason": "max_num_queued_reqs"}
    yield Counter("vllm:admission_rejections", rejected, counts.num_rejected)
    for reason, number in counts.num_finished.items():
        yield Counter("vllm:request_success", {**labels, "finished_reason": reason}, number)
    for name, histogram in counts.histograms.items():
        buckets = histogram.buckets()
        yield Histogram(f"vllm:{name}", labels, buckets["+Inf"], histogram.total, buckets)
    if counts.drafts is not None:
        yield from _of_drafts(counts.drafts, labels)


def _of_drafts(drafts: DraftStatistics, labels: dict[str, str]) -> Iterator[Metric]:
    *names, per_position = DRAFT_COUNTERS
    numbers = (drafts.num_drafts, drafts.num_draft_tokens, drafts.num_accepted_tokens)
    for name, number in zip(names, numbers, strict=True):
        yield Counter(f"vllm:{name}", labels, number)
    yield Vector(f"vllm:{per_position}", labels, list(drafts.num_accepted_tokens_per_pos))


class StatLogger:
    """Logs an engine's work since the previous line, at DEBUG level if neither line reports tokens.

    The hit rate covers the latest 1,000 requests.
    """

    def __init__(self, now: float) -> None:
        self._last_time = now
        self._last_rates = (0.0, 0.0)
        self._before = dict.fromkeys(COUNTERS, 0)

    def log(self, counts: Counts, now: float) -> None:
        """Log one line; `now` is in seconds."""
        counters, seconds = dict(counts.counters), now - self._last_time
        new = {name: counters[name] - self._before[name] for name in counters}
        rates = tuple(new[name] / seconds if seconds > 0 else 0.0 for name in ("prompt_tokens", "generation_tokens"))
        running, waiting, usage, _ = counts.gauges.values()
        main = ", ".join(f"{mark} {number}" for mark, number in counts.waiting_for.most_common(2))
        parts = [
            f"Avg prompt throughput: {rates[0]:.1f} tokens/s",
            f"Avg generation throughput: {rates[1]:.1f} tokens/s",
            f"Running: {running:.0f} reqs",
            f"Waiting: {waiting:.0f} reqs" + (f" ({main})" if waiting and main else ""),
            *([f"Preemptions: {new['num_preemptions']}"] if new["num_preemptions"] else []),
            f"GPU KV cache usage: {100 * usage:.1f}%",
            f"Prefix cache hit rate: {100 * counts.recent_hit_rate():.1f}%",
        ]
        level = logging.INFO if any((*rates, *self._last_rates)) else logging.DEBUG
        logger.log(level, "Engine 000: %s", ", ".join(parts))
        self._last_time, self._last_rates, self._before = now, (rates[0], rates[1]), counters


class StepLogger(StepObserver):
    """Logs a line after the first step that ends ten seconds or more after the previous line."""

    def __init__(self, engine: LLMEngine, counts: Counts) -> None:
        self.engine, self.counts = engine, counts
        self._stat_logger, self._next = StatLogger(engine.clock()), engine.clock() + LOG_SECONDS

    def after_update(self, result: StepResult) -> None:
        if (now := self.engine.clock()) >= self._next:
            self._stat_logger.log(self.counts, now)
            self._next = now + LOG_SECONDS
