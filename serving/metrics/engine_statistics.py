"""What an engine has done so far, counted on its thread. (vLLM: `v1/metrics/stats.py` and `loggers.py`.)"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

from mini_vllm.core.request import FINISH_REASONS, Request
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import DraftStatistics, StepObserver, StepResult
from serving.observed import is_observed, observer_of

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


class Histogram:
    """Counts values by the smallest bound that is not below them. Written by one thread, read by any.

    prometheus_client's own takes six times as long, which every token of a step would pay.
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
        """Return the bounds as Prometheus writes them, and how many values are not above each."""
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        return list(zip(names, accumulate(self._counts), strict=True))


@dataclass
class Counts:
    """Numbers since the engine began to be watched; queues and usage are those after the newest step or request.

    `drafts` is None for an engine without speculative decoding.
    """

    has_prefix_caching: bool = False
    drafts: DraftStatistics | None = None
    num_running: int = 0
    num_waiting: int = 0
    kv_cache_usage: float = 0.0
    num_preemptions: int = 0
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_generation_tokens: int = 0
    num_finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISH_REASONS.values(), 0))
    step_tokens: Histogram = field(default_factory=partial(Histogram, STEP_TOKENS))
    time_to_first_token: Histogram = field(default_factory=partial(Histogram, FIRST_TOKEN_SECONDS))
    inter_token_latency: Histogram = field(default_factory=partial(Histogram, TOKEN_SECONDS))
    time_per_output_token: Histogram = field(default_factory=partial(Histogram, TOKEN_SECONDS))
    e2e_latency: Histogram = field(default_factory=partial(Histogram, REQUEST_SECONDS))
    queue_time: Histogram = field(default_factory=partial(Histogram, REQUEST_SECONDS))

    @property
    def num_queried_tokens(self) -> int:
        """The prompt tokens that were looked up in the prefix cache."""
        return self.num_prompt_tokens if self.has_prefix_caching else 0


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
