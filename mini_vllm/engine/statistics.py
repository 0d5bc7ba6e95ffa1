"""Counts an engine's work on its thread, under the names of vLLM's metrics.

vLLM: `v1/metrics/stats.py`.
"""

import logging
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

from mini_vllm.core.invariants import leak_of
from mini_vllm.core.request import FINISH_REASONS, Request
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.gates.gated import transfers_of
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import DraftStatistics, StepObserver, StepResult
from mini_vllm.engine.reasons import waiting_for

if TYPE_CHECKING:  # imported when the first request waits
    from mini_vllm.engine.step_reasons import StepReasons

GAUGES = {
    "num_requests_running": "Requests that run.",
    "num_requests_waiting": "Requests that wait to run.",
    "kv_cache_usage_perc": "Share of the blocks in use, 0 to 1.",
}
DEFERRED = "deferred"  # among the gauges, so that both reasons and their sum are of one moment
COUNTERS = {
    "prefix_cache_queries": "Prompt tokens looked up in the cache.",
    "prefix_cache_hits": "Prompt tokens found in the prefix cache.",
    "num_preemptions": "Preemptions.",
    "prompt_tokens": "Tokens of prompts, cached ones too.",
    "generation_tokens": "Tokens generated.",
    "prompt_tokens_cached": "Tokens of prompts that were not computed here.",
}
SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
# Bounds and names are vLLM's. Without bounds: 1, 2, 5, 10, 20, 50 ... up to `max_model_len`.
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
    "iteration_tokens_total": ("Tokens scheduled in a step.", tuple(1 << power for power in (0, *range(3, 15)))),
    "time_to_first_token_seconds": ("From arrival to first token.", FIRST_TOKEN_SECONDS),
    "inter_token_latency_seconds": ("From tokens to the next ones.", TOKEN_SECONDS),
    "request_time_per_output_token_seconds": ("A request's mean time per token.", TOKEN_SECONDS),
    "e2e_request_latency_seconds": ("From arrival to last token.", REQUEST_SECONDS),
    "request_queue_time_seconds": ("From arrival to first step.", REQUEST_SECONDS),
    "request_prefill_time_seconds": ("From first step to first token.", REQUEST_SECONDS),
    "request_decode_time_seconds": ("From first to last token.", REQUEST_SECONDS),
    "request_inference_time_seconds": ("From first step to last token.", REQUEST_SECONDS),
    "request_prompt_tokens": ("A request's prompt tokens.", ()),
    "request_generation_tokens": ("A request's generated tokens.", ()),
    "request_params_max_tokens": ("The max_tokens that a request asked for.", ()),
    "request_num_preemptions": ("How often a request was preempted.", (1, 2, 3, 4, 5, 10, 20)),
    "request_prefill_kv_computed_tokens": ("A prompt's tokens that were computed here.", ()),
    "request_params_n": ("The n that a request asked for.", (1, 2, 5, 10, 20)),
}
CACHE_SETTINGS = (
    "block_size enable_prefix_caching gpu_memory_utilization kv_cache_memory_bytes num_gpu_blocks"
).split()
SECONDS_BETWEEN_LOOKS = 1.0
WARN_EVERY = 50  # preemptions, as in vLLM V0
NUM_RECENT = 1_000  # number of requests that a logged hit rate covers, as in vLLM
# The text is from vLLM's page on optimisation; V1 itself only counts preemptions.
PREEMPTED = (
    "Sequence group %s is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. This "
    "can affect the end-to-end performance. Increase gpu_memory_utilization or tensor_parallel_size to provide more KV "
    "cache memory. total_cumulative_preemption_cnt=%d"
)
logger = logging.getLogger(__name__)


class BucketCounts:
    """Counts values by the smallest bound at or above them. One thread writes, any thread may read.

    prometheus_client's histogram takes six times as long, for every token of a step.
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> dict[str, int]:
        """Map each bound, in Prometheus' notation, to the number of values up to it."""
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        return dict(zip(names, accumulate(self._counts), strict=True))


def bounds_1_2_5(maximum: int) -> list[int]:
    """Return 1, 2, 5, 10, 20, 50 ... up to `maximum`. (vLLM: `build_1_2_5_buckets`.)"""
    steps = (digit * 10**power for power in range(len(str(maximum))) for digit in (1, 2, 5))
    return list(takewhile(lambda bound: bound <= maximum, steps))


@dataclass
class Counts:
    """An engine's metrics by name, counted since `EngineStatistics` was created.

    The gauges are as of the newest step or request. `drafts` is None without speculative decoding. `leak` describes
    blocks that were in use although no request ran. `cache_config` holds the cache settings as strings.
    `waiting_for` counts waiting requests by the mark of their reason (`engine/reasons.py`), in a step of the last
    second. `num_rejected` requests came while the waiting queue was full. `recent_lookups` holds, for each of the
    latest 1,000 requests, the prompt tokens looked up in the cache and those found.
    """

    drafts: DraftStatistics | None
    cache_config: dict[str, str]
    histograms: dict[str, BucketCounts]
    leak: str = ""
    gauges: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*GAUGES, DEFERRED), 0.0))
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    num_finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISH_REASONS.values(), 0))
    num_rejected: int = 0
    prompt_tokens_by_source: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(SOURCES, 0)))
    waiting_for: Counter[str] = field(default_factory=Counter)
    recent_lookups: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=NUM_RECENT))

    @classmethod
    def of(cls, engine: LLMEngine) -> "Counts":
        """Return the counts of an engine that has done nothing."""
        to_length = bounds_1_2_5(engine.scheduler.max_model_len)
        return cls(
            engine.draft_statistics,
            {name: str(getattr(engine.config, name)) for name in CACHE_SETTINGS},
            {name: BucketCounts(bounds or to_length) for name, (_, bounds) in HISTOGRAMS.items()},
        )

    def recent_hit_rate(self) -> float:
        """Return the share of looked-up tokens that were found, 0 before the first lookup. (vLLM: `CachingMetrics`.)"""
        num_queries = sum(queries for queries, _ in self.recent_lookups)
        return sum(hits for _, hits in self.recent_lookups) / max(1, num_queries)


class EngineStatistics(StepObserver):
    """Counts an engine's work and warns of preemptions. It runs in every step, so each line costs time.

    The caller counts `request_params_n`, because the engine does not know which requests belong to one with `n` > 1.
    """

    def __init__(self, engine: LLMEngine) -> None:
        self.engine = engine
        self.counts = Counts.of(engine)
        self._last_token_times: dict[str, float] = {}
        self._external: dict[str, int] = {}
        self._reasons: StepReasons | None = None
        self._next_look = 0.0
        self._note_queues()

    def request_added(self, request_id: str) -> None:
        self._note_queues()

    def request_aborted(self, request_id: str) -> None:
        state = self.engine.processor.states.get(request_id)
        if state is not None:
            self._count_finished(state.request)
        self._note_queues()

    def request_rejected(self) -> None:
        self.counts.num_rejected += 1

    def before_schedule(self) -> None:
        # One step in a second is explained, which costs less than 0.1% of the engine's time.
        scheduler = self.engine.scheduler
        if len(scheduler.waiting) and (now := self.engine.clock()) >= self._next_look:
            from mini_vllm.engine.step_reasons import StepReasons

            self._next_look = now + SECONDS_BETWEEN_LOOKS
            self._reasons = StepReasons(scheduler, self.engine.config)

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        if self._reasons is not None:
            self.counts.waiting_for = waiting_for(self._reasons.of_step(scheduler_output)[0])
            self._reasons.calls.leave()
            self._reasons = None
        if (transfers := transfers_of(self.engine.scheduler)) is not None:
            self._external |= transfers.loading
        if scheduler_output.preempted:
            self._count_preempted(one.victim_id for one in scheduler_output.preempted)
        if scheduler_output.total_num_scheduled_tokens:
            self._observe("iteration_tokens_total", scheduler_output.total_num_scheduled_tokens)

    def after_update(self, result: StepResult) -> None:
        for request_id, token_ids in result.kept.items():
            if token_ids:
                self._count_tokens(request_id, len(token_ids))
        for request in result.ended:
            self._count_ended(request)
            self._count_finished(request)
        self._note_queues()

    def step_undone(self) -> None:
        self._note_queues()

    def _observe(self, name: str, value: float) -> None:
        self.counts.histograms[name].observe(value)

    def _count_preempted(self, request_ids: Iterable[str]) -> None:
        for request_id in request_ids:
            if self.counts.counters["num_preemptions"] % WARN_EVERY == 0:
                logger.warning(PREEMPTED, request_id, self.counts.counters["num_preemptions"] + 1)
            self.counts.counters["num_preemptions"] += 1

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
        num_hits = max(0, state.request.num_cached_tokens)
        counters["prefix_cache_hits"] += num_hits
        num_external = min(self._external.pop(request_id, 0), num_hits)
        counters["prompt_tokens_cached"] += num_hits
        by_source = (state.request.num_prompt_tokens - num_hits, num_hits - num_external, num_external)
        for source, number in zip(SOURCES, by_source, strict=True):
            self.counts.prompt_tokens_by_source[source] += number
        # Counted once per request, as in vLLM: after a preemption a request finds its own blocks.
        if self.engine.config.enable_prefix_caching and not state.request.sampling_params.skip_reading_prefix_cache:
            counters["prefix_cache_queries"] += state.request.num_prompt_tokens
            self.counts.recent_lookups.append((state.request.num_prompt_tokens, num_hits))

    def _count_ended(self, request: Request) -> None:
        self._observe("request_prompt_tokens", request.num_prompt_tokens)
        self._observe(
            "request_prefill_kv_computed_tokens", request.num_prompt_tokens - max(0, request.num_cached_tokens)
        )
        self._observe("request_num_preemptions", request.num_preemptions)
        self._observe("request_generation_tokens", request.num_output_tokens)
        self._observe("request_params_max_tokens", request.sampling_params.max_tokens)
        metrics = self.engine.processor.states[request.request_id].metrics
        arrived, started = metrics.arrival_time, metrics.first_scheduled_time
        first, last = metrics.first_token_time, metrics.last_token_time
        if metrics.queue_time is not None:
            self._observe("request_queue_time_seconds", metrics.queue_time)
        if metrics.inter_token_latency is not None:
            self._observe("request_time_per_output_token_seconds", metrics.inter_token_latency)
        if started is not None and first is not None and last is not None:
            self._observe("e2e_request_latency_seconds", last - arrived)
            self._observe("request_prefill_time_seconds", first - started)
            self._observe("request_decode_time_seconds", last - first)
            self._observe("request_inference_time_seconds", last - started)

    def _count_finished(self, request: Request) -> None:
        self.counts.num_finished[request.finish_reason or "abort"] += 1
        self._last_token_times.pop(request.request_id, None)
        self._external.pop(request.request_id, None)

    def _note_queues(self) -> None:
        scheduler = self.engine.scheduler
        if not scheduler.running:
            self.counts.leak = leak_of(scheduler)
        deferred = min(scheduler.gates.num_deferred, len(scheduler.waiting))
        used = 1 - scheduler.kv.num_free_blocks / scheduler.kv.num_usable_blocks
        # One assignment, because a different thread may read the gauges during a step.
        levels = (len(scheduler.running), len(scheduler.waiting), used, deferred)
        self.counts.gauges = dict(zip((*GAUGES, DEFERRED), levels, strict=True))
