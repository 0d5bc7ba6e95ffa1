"""What an engine has done so far, counted on its thread. (vLLM: `v1/metrics/stats.py`.)"""

from collections.abc import Mapping, Sequence

from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import StepObserver
from serving.metrics.counts import Counts
from serving.observed import is_observed, observer_of


class EngineStatistics(StepObserver):
    """Counts what an engine does. Its steps pay for every line here."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine = engine
        self.counts = Counts(engine.config.enable_prefix_caching, engine.draft_statistics)
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
        self.counts.num_preemptions += len(scheduler_output.preempted)
        if scheduler_output.total_num_scheduled_tokens:
            self.counts.step_tokens.observe(scheduler_output.total_num_scheduled_tokens)

    def after_update(
        self,
        sampled_token_ids: dict[str, list[int]],
        kept: dict[str, list[int]],
        ended: Sequence[Request],
        drafts: Mapping[str, list[int]],
    ) -> None:
        for request_id, token_ids in kept.items():
            if token_ids:
                self._count_tokens(request_id, len(token_ids))
        for request in ended:
            self._count_times(request.request_id)
            self._count_finished(request)
        self._note_queues()

    def step_undone(self) -> None:
        self._note_queues()

    def _count_tokens(self, request_id: str, num_tokens: int) -> None:
        self.counts.num_generation_tokens += num_tokens
        state = self.engine.processor.states[request_id]
        now, before = state.metrics.last_token_time, self._last_token_times.get(request_id)
        if now is None:
            return
        self._last_token_times[request_id] = now
        if before is not None:
            self.counts.inter_token_latency.observe(now - before)
            return
        self.counts.time_to_first_token.observe(now - state.metrics.arrival_time)
        self.counts.num_prompt_tokens += state.request.num_prompt_tokens
        self.counts.num_cached_tokens += max(0, state.request.num_cached_tokens)

    def _count_times(self, request_id: str) -> None:
        metrics = self.engine.processor.states[request_id].metrics
        if metrics.last_token_time is not None:
            self.counts.e2e_latency.observe(metrics.last_token_time - metrics.arrival_time)
        if metrics.queue_time is not None:
            self.counts.queue_time.observe(metrics.queue_time)
        if metrics.inter_token_latency is not None:
            self.counts.time_per_output_token.observe(metrics.inter_token_latency)

    def _count_finished(self, request: Request) -> None:
        self.counts.num_finished[request.finish_reason or "abort"] += 1
        self._last_token_times.pop(request.request_id, None)

    def _note_queues(self) -> None:
        scheduler = self.engine.scheduler
        self.counts.num_running, self.counts.num_waiting = len(scheduler.running), len(scheduler.waiting)
        self.counts.kv_cache_usage = 1 - scheduler.kv.num_free_blocks / scheduler.kv.num_usable_blocks


def keep_statistics(engine: LLMEngine) -> None:
    """Let an engine be counted, if it is not yet. Called on its thread."""
    if not is_observed(engine, EngineStatistics):
        engine.add_observer(EngineStatistics(engine))


def counts_of(engine: LLMEngine) -> Counts:
    """Return what has been counted. Raises `ValueError` if nothing counts."""
    return observer_of(engine, EngineStatistics).counts
