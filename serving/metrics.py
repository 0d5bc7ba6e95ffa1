"""What an engine has done so far, counted on its thread and shown to Prometheus under the names of vLLM's metrics.

vLLM: `v1/metrics/stats.py` and `v1/metrics/loggers.py`.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, cast

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mini_vllm.core.invariants import leak_of
from mini_vllm.core.request import FINISH_REASONS, Request
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import DraftStatistics, StepObserver, StepResult
from serving.observed import observer_of

LABELS = ("model_name", "engine")
GAUGES = {
    "num_requests_running": "Requests that run.",
    "num_requests_waiting": "Requests that wait to run.",
    "kv_cache_usage_perc": "Share of the blocks in use, 0 to 1.",
}
COUNTERS = {
    "prefix_cache_queries": "Prompt tokens looked up in the cache.",
    "prefix_cache_hits": "Prompt tokens found in the prefix cache.",
    "num_preemptions": "Preemptions.",
    "prompt_tokens": "Tokens of prompts, cached ones too.",
    "generation_tokens": "Tokens generated.",
}
# The bounds are vLLM's, as the names are.
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
FIRST_TOKEN_SECONDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    *(160.0, 640.0, 2560.0),
)
TOKEN_SECONDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_SECONDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0),
    *(1920.0, 7680.0),
)
HISTOGRAMS: dict[str, tuple[str, Sequence[float]]] = {
    "iteration_tokens_total": ("Tokens scheduled in a step.", STEP_TOKENS),
    "time_to_first_token_seconds": ("From arrival to first token.", FIRST_TOKEN_SECONDS),
    "inter_token_latency_seconds": ("From tokens to the next ones.", TOKEN_SECONDS),
    "request_time_per_output_token_seconds": ("A request's mean time per token.", TOKEN_SECONDS),
    "e2e_request_latency_seconds": ("From arrival to last token.", REQUEST_SECONDS),
    "request_queue_time_seconds": ("From arrival to first step.", REQUEST_SECONDS),
}


class Histogram:
    """Counts values by the smallest bound that is not below them. Written by one thread, read by any.

    prometheus_client's own takes six times as long, a price that every token of a step would pay.
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return each bound in Prometheus' notation with the number of values up to it."""
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        return list(zip(names, accumulate(self._counts), strict=True))


@dataclass
class Counts:
    """Numbers since the engine has been watched, by their names; the gauges are as of the newest step or request.

    `drafts` is None for an engine without speculative decoding. `leak` is about blocks that no request held when none
    ran.
    """

    drafts: DraftStatistics | None
    leak: str = ""
    gauges: dict[str, float] = field(default_factory=lambda: dict.fromkeys(GAUGES, 0.0))
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    num_finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISH_REASONS.values(), 0))
    histograms: dict[str, Histogram] = field(
        default_factory=lambda: {name: Histogram(bounds) for name, (_, bounds) in HISTOGRAMS.items()}
    )


class EngineStatistics(StepObserver):
    """Counts what an engine does. Every step pays for every line here."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine = engine
        self.counts = Counts(engine.draft_statistics)
        self._last_token_times: dict[str, float] = {}
        self._note_queues()

    def request_added(self, request_id: str) -> None:
        self._note_queues()

    def request_aborted(self, request_id: str) -> None:
        state = self.engine.processor.states.get(request_id)
        if state is not None:
            self._count_finished(state.request)
        self._note_queues()

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        self.counts.counters["num_preemptions"] += len(scheduler_output.preempted)
        if scheduler_output.total_num_scheduled_tokens:
            self._observe("iteration_tokens_total", scheduler_output.total_num_scheduled_tokens)

    def after_update(self, result: StepResult) -> None:
        for request_id, token_ids in result.kept.items():
            if token_ids:
                self._count_tokens(request_id, len(token_ids))
        for request in result.ended:
            self._count_times(request.request_id)
            self._count_finished(request)
        self._note_queues()

    def step_undone(self) -> None:
        self._note_queues()

    def _observe(self, name: str, value: float) -> None:
        self.counts.histograms[name].observe(value)

    def _count_tokens(self, request_id: str, num_tokens: int) -> None:
        counters = self.counts.counters
        counters["generation_tokens"] += num_tokens
        state = self.engine.processor.states[request_id]
        now, before = state.metrics.last_token_time, self._last_token_times.get(request_id)
        if now is None:
            return
        self._last_token_times[request_id] = now
        if before is not None:
            self._observe("inter_token_latency_seconds", now - before)
            return
        self._observe("time_to_first_token_seconds", now - state.metrics.arrival_time)
        counters["prompt_tokens"] += state.request.num_prompt_tokens
        if self.engine.config.enable_prefix_caching:
            counters["prefix_cache_queries"] += state.request.num_prompt_tokens
        counters["prefix_cache_hits"] += max(0, state.request.num_cached_tokens)

    def _count_times(self, request_id: str) -> None:
        metrics = self.engine.processor.states[request_id].metrics
        if metrics.last_token_time is not None:
            self._observe("e2e_request_latency_seconds", metrics.last_token_time - metrics.arrival_time)
        if metrics.queue_time is not None:
            self._observe("request_queue_time_seconds", metrics.queue_time)
        if metrics.inter_token_latency is not None:
            self._observe("request_time_per_output_token_seconds", metrics.inter_token_latency)

    def _count_finished(self, request: Request) -> None:
        self.counts.num_finished[request.finish_reason or "abort"] += 1
        self._last_token_times.pop(request.request_id, None)

    def _note_queues(self) -> None:
        scheduler = self.engine.scheduler
        if not scheduler.running:
            self.counts.leak = leak_of(scheduler)
        used = 1 - scheduler.kv.num_free_blocks / scheduler.kv.num_usable_blocks
        # One assignment: another thread may read them in the middle of a step.
        self.counts.gauges = dict(zip(GAUGES, (len(scheduler.running), len(scheduler.waiting), used), strict=True))


class EngineCollector(Collector):
    """Yields every metric with the labels `model_name` and `engine`, which is 0: there is one engine."""

    def __init__(self, counts: Counts, model_name: str) -> None:
        self._counts = counts
        self._labels = (model_name, "0")

    def collect(self) -> Iterator[Metric]:
        now = self._counts
        for name, about in GAUGES.items():
            yield self._metric(GaugeMetricFamily, name, about, now.gauges[name])
        for name, about in COUNTERS.items():
            yield self._metric(CounterMetricFamily, name, about, now.counters[name])
        yield self._counters("request_success", "Requests that ended.", "finished_reason", now.num_finished)
        for name, (about, _) in HISTOGRAMS.items():
            histogram = now.histograms[name]
            yield self._metric(HistogramMetricFamily, name, about, histogram.buckets(), histogram.total)
        if now.drafts is not None:
            yield from self._drafts(now.drafts)

    def _drafts(self, drafts: DraftStatistics) -> Iterator[Metric]:
        for name, about, value in (
            ("spec_decode_num_drafts", "Requests with drafts in a step.", drafts.num_drafts),
            ("spec_decode_num_draft_tokens", "Draft tokens verified.", drafts.num_draft_tokens),
            ("spec_decode_num_accepted_tokens", "Draft tokens accepted.", drafts.num_accepted_tokens),
        ):
            yield self._metric(CounterMetricFamily, name, about, value)
        by_position = {str(position): count for position, count in enumerate(drafts.num_accepted_tokens_per_pos)}
        yield self._counters(
            "spec_decode_num_accepted_tokens_per_pos", "Draft tokens accepted by position.", "position", by_position
        )

    def _metric(self, family: type[Any], name: str, about: str, *values: object) -> Metric:
        metric = family(f"vllm:{name}", about, labels=LABELS)
        metric.add_metric(self._labels, *values)
        return cast(Metric, metric)

    def _counters(self, name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", about, labels=(*LABELS, label))
        for key, value in values.items():
            family.add_metric((*self._labels, key), value)
        return family


def keep_statistics(engine: LLMEngine) -> None:
    """Let an engine be counted. Called where it is."""
    engine.add_observer(EngineStatistics(engine))


def counts_of(engine: LLMEngine) -> Counts:
    """Return what has been counted so far."""
    return observer_of(engine, EngineStatistics).counts
