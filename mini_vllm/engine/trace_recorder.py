"""What an engine decided, step by step, in the format of the recorded vLLM traces.

One `StepRecord` is one line of JSON; `parity/traces/README.md` explains every field. The visualiser,
the parity replay and the comparison of two lineups all read this one format.
"""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.seams.interfaces import BlockPool, PrefixCache


class ScheduledRecord(TypedDict):
    """One request's share of a step."""

    id: str
    kind: str
    computed: int
    n: int
    hit: NotRequired[int]
    new_blocks: list[int]
    blocks: list[int]


class StepRecord(TypedDict):
    """One step of the scheduler."""

    step: int
    added: list[str]
    aborted: list[str]
    scheduled: list[ScheduledRecord]
    total: int
    preempted: list[tuple[str, str, int]]
    evicted: list[int]
    finished_sent: list[str]
    free_after_schedule: int
    sampled: dict[str, list[int]]
    aborted_before_update: list[str]
    update_of: int | None
    output: list[tuple[str, list[int]]]
    finished: list[tuple[str, str | None, int | str | None]]
    drafts_given: dict[str, list[int]]
    free_after_update: int
    running_after: list[tuple[str, int, int, int]]
    waiting_after: list[str]
    detail: dict[str, Any]


class WatchedPrefixCache:
    """A prefix cache that also writes down what is evicted."""

    def __init__(self, inner: PrefixCache) -> None:
        self.inner = inner
        self.evicted: list[int] = []

    def update_block_hashes(self, request: Request) -> None:
        self.inner.update_block_hashes(request)

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        return self.inner.find_longest_cache_hit(request)

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        self.inner.pin(request, block_ids, pool)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.inner.cache_full_blocks(request, block_ids, num_cached_blocks, num_full_blocks)

    def evict(self, block_id: int) -> bool:
        was_cached = self.inner.evict(block_id)
        if was_cached:
            self.evicted.append(block_id)
        return was_cached

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        self.inner.drop_uncomputed(block_ids)

    def cached_blocks(self) -> dict[int, bytes]:
        return self.inner.cached_blocks()

    def hit_rate(self) -> float:
        return self.inner.hit_rate()


class TraceRecorder:
    """Watches one scheduler. Call its methods at the moments that they are named after."""

    def __init__(self, scheduler: Scheduler, evictions: WatchedPrefixCache) -> None:
        self.scheduler = scheduler
        self.evictions = evictions
        self.steps: list[StepRecord] = []
        self._added: list[str] = []
        self._aborted: list[str] = []
        self._finished: set[str] = set()
        self._unsent: set[str] = set()
        self._tables: dict[str, int] = {}
        self._statuses: dict[str, RequestStatus] = {}

    def added(self, request_id: str) -> None:
        self._added.append(request_id)

    def aborted(self, request_id: str) -> None:
        self._aborted.append(request_id)

    def before_schedule(self) -> None:
        self.evictions.evicted.clear()
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
                scheduled=[self._scheduled(*item) for item in scheduler_output.num_scheduled_tokens.items()],
                total=scheduler_output.total_num_scheduled_tokens,
                preempted=[(p.victim_id, p.cause_id, p.num_tokens_returned) for p in scheduler_output.preempted],
                evicted=list(self.evictions.evicted),
                finished_sent=sorted(self._finished),
                free_after_schedule=kv.num_free_blocks,
                sampled={},
                aborted_before_update=[],
                update_of=len(self.steps),
                output=[],
                finished=[],
                drafts_given={},
                free_after_update=kv.num_free_blocks,
                running_after=[],
                waiting_after=[],
                detail={"shared": {str(b): n for b, n in sorted(kv.ref_counts().items()) if n > 1}},
            )
        )
        self._added, self._aborted = [], []

    def undone(self) -> None:
        """Forget the step that `after_schedule` noted: the runner failed and it was rolled back."""
        record = self.steps.pop()
        self._added, self._aborted = record["added"] + self._added, record["aborted"] + self._aborted
        self._unsent = set(record["finished_sent"])

    def after_update(
        self, sampled_token_ids: dict[str, list[int]], kept: dict[str, list[int]], ended: Sequence[Request]
    ) -> None:
        """Complete the step. `ended` are the requests that this update finished, in order."""
        kv, record = self.scheduler.kv, self.steps[-1]
        record["sampled"] = dict(sampled_token_ids)
        record["aborted_before_update"], self._aborted = self._aborted, []
        record["output"] = list(kept.items())
        record["finished"] = [(r.request_id, r.finish_reason, r.stop_reason) for r in ended]
        record["free_after_update"] = kv.num_free_blocks
        record["running_after"] = [
            (r.request_id, r.num_tokens, r.num_computed_tokens, 0) for r in self.scheduler.running
        ]
        record["waiting_after"] = [r.request_id for r in self.scheduler.waiting]
        record["detail"]["free_queue"] = kv.free_block_ids()
        record["detail"]["cached"] = sorted(self.scheduler.prefix_cache.cached_blocks())

    def _scheduled(self, request_id: str, num_tokens: int) -> ScheduledRecord:
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
