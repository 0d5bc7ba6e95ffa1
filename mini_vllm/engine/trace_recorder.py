"""Records what an engine decides, step by step."""

from collections import deque

from mini_vllm.core.request import RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.step_record import ScheduledRecord, StepRecord
from mini_vllm.engine.observers import StepObserver, StepResult


class TraceRecorder(StepObserver):
    """Writes one `StepRecord` per step of a scheduler to `steps`.

    `evicted` is a list to which the scheduler's prefix cache appends the ids of evicted blocks
    (`ObservedPrefixCache`); each step empties it.
    """

    def __init__(self, scheduler: Scheduler, evicted: list[int]) -> None:
        self.scheduler = scheduler
        self.evicted = evicted
        self.steps: list[StepRecord] = []
        self._in_flight: deque[StepRecord] = deque()
        self._num_ended = 0
        self._added: list[str] = []
        self._aborted: list[str] = []
        self._finished: set[str] = set()
        self._unsent: set[str] = set()
        self._tables: dict[str, int] = {}
        self._statuses: dict[str, RequestStatus] = {}

    def request_added(self, request_id: str) -> None:
        self._added.append(request_id)

    def request_aborted(self, request_id: str) -> None:
        self._aborted.append(request_id)

    def before_schedule(self) -> None:
        self.evicted.clear()
        self._finished = self._unsent | self.scheduler.finished_req_ids
        self._unsent = set()
        self._statuses = {r.request_id: r.status for r in self.scheduler.requests.values()}
        self._tables = {r.request_id: len(self.scheduler.kv.block_ids(r.request_id)) for r in self.scheduler.running}

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        kv = self.scheduler.kv
        self.steps.append(
            StepRecord(
                step=len(self.steps),
                added=self._added,
                aborted=self._aborted,
                scheduled=self._scheduled(scheduler_output),
                total=scheduler_output.total_num_scheduled_tokens,
                preempted=[(p.victim_id, p.cause_id, p.num_tokens_returned) for p in scheduler_output.preempted],
                evicted=list(self.evicted),
                finished_sent=sorted(self._finished),
                free_after_schedule=kv.num_free_blocks,
                sampled={},
                aborted_before_update=[],
                update_of=None,
                output=[],
                finished=[],
                drafts_given={},
                free_after_update=kv.num_free_blocks,
                running_after=[],
                waiting_after=[],
                detail={"shared": {str(b): n for b, n in sorted(kv.ref_counts().items()) if n > 1}},
            )
        )
        self._in_flight.append(self.steps[-1])
        self._added, self._aborted = [], []

    def step_undone(self) -> None:
        self._unsent |= self._finished
        for record in self.steps[self._num_ended :]:
            # An interrupt right behind `append` has left the very lists of the record in place.
            if record["added"] is not self._added:
                self._added, self._aborted = record["added"] + self._added, record["aborted"] + self._aborted
        del self.steps[self._num_ended :]
        for record in self._in_flight:  # the plan counts as not taken, but the tokens applied behind it do
            record["scheduled"], record["total"], record["preempted"], record["evicted"] = [], 0, [], []
        self._in_flight.clear()

    def step_started(self) -> None:
        self._end_step()

    def after_update(self, result: StepResult) -> None:
        applied, record = self._in_flight.popleft(), self.steps[-1]
        applied["sampled"] = dict(result.sampled_token_ids)
        record["update_of"] = applied["step"]
        record["output"] = list(result.kept.items())
        record["finished"] = [(r.request_id, r.finish_reason, r.stop_reason) for r in result.ended]
        record["drafts_given"] = dict(result.drafts)
        self._end_step()

    def _end_step(self) -> None:
        """Record the state behind a step."""
        self._num_ended, self._finished = len(self.steps), set()
        kv, record = self.scheduler.kv, self.steps[-1]
        record["aborted_before_update"], self._aborted = self._aborted, []
        record["free_after_update"] = kv.num_free_blocks
        record["running_after"] = [
            (r.request_id, r.num_tokens, r.num_computed_tokens, r.num_output_placeholders)
            for r in self.scheduler.running
        ]
        record["waiting_after"] = [r.request_id for r in self.scheduler.waiting]
        record["detail"]["free_queue"] = kv.free_block_ids()
        record["detail"]["cached"] = sorted(self.scheduler.prefix_cache.cached_blocks())

    def _scheduled(self, scheduler_output: SchedulerOutput) -> list[ScheduledRecord]:
        shares = [self._share(*item) for item in scheduler_output.num_scheduled_tokens.items()]
        for share in shares:
            if drafts := scheduler_output.scheduled_spec_decode_tokens.get(share["id"]):
                share["drafts"] = drafts
        return shares

    def _share(self, request_id: str, num_tokens: int) -> ScheduledRecord:
        request = self.scheduler.requests[request_id]
        blocks = list(self.scheduler.kv.block_ids(request_id))
        computed = request.num_computed_tokens - num_tokens
        status = self._statuses[request_id]
        if status is RequestStatus.RUNNING:
            new_blocks = blocks[self._tables[request_id] :]
            return ScheduledRecord(
                id=request_id, kind="running", computed=computed, n=num_tokens, new_blocks=new_blocks, blocks=blocks
            )
        return ScheduledRecord(
            id=request_id,
            kind="resumed" if status is RequestStatus.PREEMPTED else "new",
            computed=computed,
            n=num_tokens,
            hit=computed,
            new_blocks=blocks[computed // self.scheduler.kv.block_size :],
            blocks=blocks,
        )
