"""Watches an engine and keeps its last steps, small: what a server that runs for days may spend on being watched."""

import pickle
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.step_record import ScheduledRecord, StepRecord
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import StepObserver, StepResult
from serving.live.bills import Bills
from serving.live.chunks import Chunks
from serving.live.packed import PackedStep, Totals, keyframe_of, pool_of
from serving.observed import is_observed

MAX_WAITING_NAMED = 64
MAX_BLOCKS_IN_EACH_STEP = 4096
"""In a larger pool free queue and cache are recorded at the beginning of a chunk alone; between they are computed."""


class RecentSteps(StepObserver):
    """Packs each step when it ends; 50 of them have one walk along the free queue and the cache before them.

    After `want_pool` the next step says what is free and cached, too.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.chunks, self.bills = Chunks(), Bills()
        self._totals = Totals()
        self._wants_pool, self._is_broken = False, False
        self._keyframe = b""
        self._added: dict[str, int] = {}
        self._aborted: list[str] = []
        self._num_blocks: dict[str, int] = {}
        self._plan: StepRecord | None = None
        self._lengths: dict[str, int] = {}
        self._in_flight: deque[int] = deque()

    @property
    def num_arrived(self) -> int:
        """The requests that have arrived since the last step was planned."""
        return len(self._added)

    def want_pool(self) -> None:
        """Let the next step say which blocks are free and cached."""
        self._wants_pool = True

    def request_added(self, request_id: str) -> None:
        request = self.scheduler.requests[request_id]
        self._added[request_id] = request.num_prompt_tokens
        self.bills.open(request, self.chunks.num_steps)

    def request_aborted(self, request_id: str) -> None:
        self._aborted.append(request_id)
        self._totals.ended += 1
        self.bills.close(request_id, self.chunks.num_steps)

    def before_schedule(self) -> None:
        if self._is_broken or self.chunks.needs_keyframe:
            self._keyframe = packed(keyframe_of(self.scheduler, replace(self._totals)))
        block_ids = self.scheduler.kv.block_ids
        self._num_blocks = {r.request_id: len(block_ids(r.request_id)) for r in self.scheduler.running}

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        drafts = scheduler_output.scheduled_spec_decode_tokens
        self._lengths, self._added = self._added, {}
        self._plan = StepRecord(
            step=self.chunks.num_steps,
            added=list(self._lengths),
            aborted=self._aborted,
            scheduled=[self._share(*item, drafts) for item in scheduler_output.num_scheduled_tokens.items()],
            total=scheduler_output.total_num_scheduled_tokens,
            preempted=[(p.victim_id, p.cause_id, p.num_tokens_returned) for p in scheduler_output.preempted],
            evicted=[],
            finished_sent=[],
            free_after_schedule=self.scheduler.kv.num_free_blocks,
            sampled={},
            aborted_before_update=[],
            update_of=None,
            output=[],
            finished=[],
            drafts_given={},
            free_after_update=0,
            running_after=[],
            waiting_after=[],
            detail={},
        )
        self._aborted = []
        self._in_flight.append(self.chunks.num_steps)

    def step_started(self) -> None:
        self._end_step({})

    def step_undone(self) -> None:
        # What the engine has now is not what the steps so far lead to: the next one begins a chunk.
        self._plan, self._is_broken = None, True
        self._in_flight.clear()

    def after_update(self, result: StepResult) -> None:
        record, totals = self._plan, self._totals
        assert record is not None
        record["update_of"] = self._in_flight.popleft()
        record["output"] = list(result.kept.items())
        record["finished"] = [(r.request_id, r.finish_reason, r.stop_reason) for r in result.ended]
        totals.ended += len(result.ended)
        verified, sampled = result.scheduler_output.scheduled_spec_decode_tokens, result.sampled_token_ids
        for request_id in verified.keys() & sampled.keys():
            totals.drafts += len(verified[request_id])
            totals.accepted += max(0, len(sampled[request_id]) - 1)
        for request in result.ended:
            self.bills.close(request.request_id, self.chunks.num_steps)
        self._end_step(dict(sampled))

    def _share(self, request_id: str, num_tokens: int, drafts: Mapping[str, list[int]]) -> ScheduledRecord:
        """Return a request's share: with its whole block table if it joins, else with its new blocks alone."""
        request, kv = self.scheduler.requests[request_id], self.scheduler.kv
        table = kv.block_ids(request_id)
        computed = request.num_computed_tokens - num_tokens
        joins = request_id not in self._num_blocks
        num_before = computed // kv.block_size if joins else self._num_blocks[request_id]
        kind = ("resumed" if request.num_preemptions else "new") if joins else "running"
        share = ScheduledRecord(
            id=request_id,
            kind=kind,
            computed=computed,
            n=num_tokens,
            new_blocks=list(table[num_before:]),
            blocks=list(table) if joins else [],
        )
        if joins:
            share["hit"] = computed
            self._totals.hit_tokens += computed
            self._totals.query_tokens += request.num_tokens
        if request_id in drafts:
            share["drafts"] = drafts[request_id]
        self.bills.charge(request_id, len(table), self.chunks.num_steps)
        return share

    def _end_step(self, sampled: dict[str, list[int]]) -> None:
        record, scheduler = self._plan, self.scheduler
        assert record is not None
        self._totals.preemptions += len(record["preempted"])
        record["aborted_before_update"], self._aborted = self._aborted, []
        record["running_after"] = [
            (r.request_id, r.num_tokens, r.num_computed_tokens, r.num_output_placeholders) for r in scheduler.running
        ]
        record["waiting_after"] = [r.request_id for r in islice(scheduler.waiting, MAX_WAITING_NAMED)]
        if self._wants_pool and scheduler.kv.num_usable_blocks <= MAX_BLOCKS_IN_EACH_STEP:
            record["detail"]["free_queue"], record["detail"]["cached"] = pool_of(scheduler)
            self._wants_pool = False
        if self._keyframe:
            self.chunks.begin(self._keyframe)
            self._keyframe, self._is_broken = b"", False
        self.chunks.append(packed(PackedStep(record, sampled, self._lengths, self._totals)))
        self._plan = None


def packed(content: Any) -> bytes:
    """Return a value as bytes, which cost the garbage collector nothing."""
    return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)


def keep_recent_steps(engine: LLMEngine) -> None:
    """Let an engine keep its last steps, if it does not yet. Called before its first step, by who owns the engine."""
    if not is_observed(engine, RecentSteps):
        engine.add_observer(RecentSteps(engine.scheduler))
