"""What an engine has done so far, counted on its thread. (vLLM: `v1/metrics/stats.py`.)"""

from collections.abc import Mapping, Sequence

from mini_vllm.core.request import FINISH_REASONS, Request
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import StepObserver
from serving.metrics.histogram import (
    FIRST_TOKEN_SECONDS,
    REQUEST_SECONDS,
    STEP_TOKENS,
    TOKEN_SECONDS,
    Histogram,
)


class EngineStatistics(StepObserver):
    """Counts what the engine does, from `watch` on. The queues are those behind the newest step or request."""

    def __init__(self) -> None:
        self.num_running = 0
        self.num_waiting = 0
        self.kv_cache_usage = 0.0
        self.num_preemptions = 0
        self.num_prompt_tokens = 0
        self.num_cached_tokens = 0
        self.num_generation_tokens = 0
        self.num_finished = dict.fromkeys(FINISH_REASONS.values(), 0)
        self.step_tokens = Histogram(STEP_TOKENS)
        self.time_to_first_token = Histogram(FIRST_TOKEN_SECONDS)
        self.inter_token_latency = Histogram(TOKEN_SECONDS)
        self.time_per_output_token = Histogram(TOKEN_SECONDS)
        self.e2e_latency = Histogram(REQUEST_SECONDS)
        self.queue_time = Histogram(REQUEST_SECONDS)
        self.engine: LLMEngine | None = None
        self._last_token_times: dict[str, float] = {}

    def watch(self, engine: LLMEngine) -> None:
        """Begin to observe an engine. Called on its thread."""
        self.engine = engine
        engine.add_observer(self)
        self._note_queues()

    def request_added(self, request_id: str) -> None:
        self._note_queues()

    def request_aborted(self, request_id: str) -> None:
        state = self.engine and self.engine.processor.states.get(request_id)
        if state:
            self._count_finished(state.request)
        self._note_queues()

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        self.num_preemptions += len(scheduler_output.preempted)
        if scheduler_output.total_num_scheduled_tokens:
            self.step_tokens.observe(scheduler_output.total_num_scheduled_tokens)

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
        assert self.engine is not None
        self.num_generation_tokens += num_tokens
        state = self.engine.processor.states[request_id]
        now, before = state.metrics.last_token_time, self._last_token_times.get(request_id)
        if now is None:
            return
        self._last_token_times[request_id] = now
        if before is not None:
            self.inter_token_latency.observe(now - before)
            return
        self.time_to_first_token.observe(now - state.metrics.arrival_time)
        self.num_prompt_tokens += state.request.num_prompt_tokens
        self.num_cached_tokens += max(0, state.request.num_cached_tokens)

    def _count_times(self, request_id: str) -> None:
        assert self.engine is not None
        metrics = self.engine.processor.states[request_id].metrics
        if metrics.last_token_time is not None:
            self.e2e_latency.observe(metrics.last_token_time - metrics.arrival_time)
        if metrics.queue_time is not None:
            self.queue_time.observe(metrics.queue_time)
        if metrics.inter_token_latency is not None:
            self.time_per_output_token.observe(metrics.inter_token_latency)

    def _count_finished(self, request: Request) -> None:
        self.num_finished[request.finish_reason or "abort"] += 1
        self._last_token_times.pop(request.request_id, None)

    def _note_queues(self) -> None:
        assert self.engine is not None
        scheduler = self.engine.scheduler
        self.num_running, self.num_waiting = len(scheduler.running), len(scheduler.waiting)
        self.kv_cache_usage = 1 - scheduler.kv.num_free_blocks / scheduler.kv.num_usable_blocks
