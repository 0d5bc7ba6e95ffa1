"""Counts an engine's work on its thread.

vLLM: `v1/metrics/stats.py`.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mini_vllm.core.invariants import leak_of
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.gates.gated import transfers_of
from mini_vllm.engine.counts import DEFERRED, GAUGES, SOURCES, Counts
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import StepObserver, StepResult
from mini_vllm.engine.reasons import waiting_for

if TYPE_CHECKING:  # imported when a request first waits
    from mini_vllm.engine.step_reasons import StepReasons

SECONDS_BETWEEN_LOOKS = 1.0
WARN_EVERY = 50  # number of preemptions between two warnings, as in vLLM V0
# The text is from vLLM's page on optimisation; V1 itself only counts preemptions.
PREEMPTED = (
    "Sequence group %s is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. This "
    "can affect the end-to-end performance. Increase gpu_memory_utilization or tensor_parallel_size to provide more KV "
    "cache memory. total_cumulative_preemption_cnt=%d"
)
logger = logging.getLogger(__name__)


class EngineStatistics(StepObserver):
    """Counts an engine's work and warns of preemptions. This code runs in every step, so each line costs time.

    The caller counts `request_params_n`, because the engine does not know which requests belong to a single request
    with `n` > 1.
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
        # Explaining one step per second costs less than 0.1% of the engine's time.
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
        # Counted once per request, as in vLLM, because a preempted request hits its own blocks again.
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
        # A single assignment, because another thread may read the gauges during a step.
        levels = (len(scheduler.running), len(scheduler.waiting), used, deferred)
        self.counts.gauges = dict(zip((*GAUGES, DEFERRED), levels, strict=True))
