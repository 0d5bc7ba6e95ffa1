"""Records an engine's decisions, step by step."""

from collections import deque
from typing import TYPE_CHECKING

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.step_record import ScheduledRecord, StepRecord
from mini_vllm.engine.observers import StepObserver, StepResult

if TYPE_CHECKING:  # its modules are needed only by an engine that records
    from mini_vllm.engine.step_reasons import StepReasons


class StepRecorder(StepObserver):
    """Writes the `StepRecord` of each step. The subclass chooses which parts to store, and so determines the cost."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._in_flight: deque[StepRecord] = deque()
        self._added: list[str] = []
        self._aborted: list[str] = []
        self._priorities: dict[str, int] = {}
        self._tables: dict[str, int] = {}

    def request_added(self, request_id: str) -> None:
        self._added.append(request_id)

    def request_aborted(self, request_id: str) -> None:
        self._aborted.append(request_id)

    def priority_updated(self, request_id: str, priority: int) -> None:
        self._priorities[request_id] = priority

    def before_schedule(self) -> None:
        block_ids = self.scheduler.kv.block_ids
        self._tables = {r.request_id: len(block_ids(r.request_id)) for r in self.scheduler.running}

    def record_plan(self, step: int, scheduler_output: SchedulerOutput) -> StepRecord:
        """Return the record of the newly planned step; `record_update` adds the rest."""
        num_free_blocks = self.scheduler.kv.num_free_blocks
        record = StepRecord(
            step=step,
            added=self._added,
            aborted=self._aborted,
            scheduled=[self._share(*item, scheduler_output) for item in scheduler_output.num_scheduled_tokens.items()],
            total=scheduler_output.total_num_scheduled_tokens,
            preempted=[(p.victim_id, p.cause_id, p.num_tokens_returned) for p in scheduler_output.preempted],
            evicted=[],
            finished_sent=[],
            free_after_schedule=num_free_blocks,
            sampled={},
            aborted_before_update=[],
            update_of=None,
            output=[],
            finished=[],
            drafts_given={},
            free_after_update=num_free_blocks,
            running_after=[],
            waiting_after=[],
            detail={},
        )
        if self._priorities:
            record["priorities"], self._priorities = self._priorities, {}
        return record

    def plan_recorded(self, record: StepRecord) -> None:
        """Start collecting data for the next step after the current record has been stored."""
        self._in_flight.append(record)
        self._added, self._aborted = [], []

    def record_update(self, record: StepRecord, result: StepResult) -> StepRecord:
        """Add the applied results to the newest record; return the record of the step that computed them."""
        applied = self._in_flight.popleft()
        record["update_of"] = applied["step"]
        record["output"] = list(result.kept.items())
        record["finished"] = [(r.request_id, r.finish_reason, r.stop_reason) for r in result.ended]
        return applied

    def record_end(self, record: StepRecord) -> None:
        """Add the requests that are running after the step to its record."""
        record["aborted_before_update"], self._aborted = self._aborted, []
        record["free_after_update"] = self.scheduler.kv.num_free_blocks
        record["running_after"] = [
            (r.request_id, r.num_tokens, r.num_computed_tokens, r.num_output_placeholders)
            for r in self.scheduler.running
        ]

    def was_preempted(self, request: Request) -> bool:
        """Return whether a request that starts running in this step has run before."""
        return request.num_preemptions > 0

    def _share(self, request_id: str, num_tokens: int, scheduler_output: SchedulerOutput) -> ScheduledRecord:
        request, kv = self.scheduler.requests[request_id], self.scheduler.kv
        blocks = list(kv.block_ids(request_id))
        computed = request.num_computed_tokens - num_tokens
        num_before = self._tables.get(request_id)
        if num_before is not None:
            share = ScheduledRecord(
                id=request_id,
                kind="running",
                computed=computed,
                n=num_tokens,
                new_blocks=blocks[num_before:],
                blocks=blocks,
            )
        else:
            share = ScheduledRecord(
                id=request_id,
                kind="resumed" if self.was_preempted(request) else "new",
                computed=computed,
                n=num_tokens,
                hit=computed,
                new_blocks=blocks[computed // kv.block_size :],
                blocks=blocks,
            )
        if drafts := scheduler_output.scheduled_spec_decode_tokens.get(request_id):
            share["drafts"] = drafts
        return share


class TraceRecorder(StepRecorder):
    """Stores the record of every step in `steps`, including the whole state of the pool.

    `evicted` is a list to which the scheduler's prefix cache appends the ids of evicted blocks (`ObservedPrefixCache`);
    each step empties it. With `reasons`, a record also states why requests got no tokens.
    """

    def __init__(self, scheduler: Scheduler, evicted: list[int], reasons: "StepReasons | None" = None) -> None:
        super().__init__(scheduler)
        self.evicted, self.reasons = evicted, reasons
        self.steps: list[StepRecord] = []
        self._num_ended = 0
        self._finished: set[str] = set()
        self._unsent: set[str] = set()
        self._have_run: set[str] = set()

    def before_schedule(self) -> None:
        super().before_schedule()
        self.evicted.clear()
        self._finished = self._unsent | self.scheduler.finished_req_ids
        self._unsent = set()
        self._have_run = {r.request_id for r in self.scheduler.requests.values() if _has_run(r)}

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        record = self.record_plan(len(self.steps), scheduler_output)
        record["evicted"], record["finished_sent"] = list(self.evicted), sorted(self._finished)
        shared = {str(b): n for b, n in sorted(self.scheduler.kv.ref_counts().items()) if n > 1}
        record["detail"] = {"shared": shared}
        if self.reasons is not None:
            record["reasons"], record["limits"] = self.reasons.of_step(scheduler_output)
        self.steps.append(record)
        self.plan_recorded(record)

    def step_undone(self) -> None:
        self._unsent |= self._finished
        for record in self.steps[self._num_ended :]:
            self._priorities = record.get("priorities", {}) | self._priorities
            # If an interrupt came just after `append`, the record shares these lists.
            if record["added"] is not self._added:
                self._added, self._aborted = record["added"] + self._added, record["aborted"] + self._aborted
        del self.steps[self._num_ended :]
        for record in self._in_flight:  # the plan is undone, but tokens that have since been applied stay
            record["scheduled"], record["total"], record["preempted"], record["evicted"] = [], 0, [], []
        self._in_flight.clear()

    def step_started(self) -> None:
        self._end_step()

    def after_update(self, result: StepResult) -> None:
        applied = self.record_update(self.steps[-1], result)
        applied["sampled"] = dict(result.sampled_token_ids)
        self.steps[-1]["drafts_given"] = dict(result.drafts)
        self._end_step()

    def was_preempted(self, request: Request) -> bool:
        return request.request_id in self._have_run

    def _end_step(self) -> None:
        self._num_ended, self._finished = len(self.steps), set()
        record = self.steps[-1]
        self.record_end(record)
        record["waiting_after"] = [r.request_id for r in self.scheduler.waiting]
        record["detail"]["free_queue"] = self.scheduler.kv.free_block_ids()
        record["detail"]["cached"] = sorted(self.scheduler.prefix_cache.cached_blocks())


def _has_run(request: Request) -> bool:
    """Return whether a waiting request was preempted earlier; it may be loading its K and V now."""
    is_loading = request.status is RequestStatus.WAITING_FOR_REMOTE_KVS
    return request.status is RequestStatus.PREEMPTED or (is_loading and request.num_cached_tokens >= 0)
