"""Observes an engine and stores its last steps cheaply enough for a server that runs for days."""

import pickle
import time
from array import array
from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mini_vllm.config import EngineConfig
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import StepResult
from mini_vllm.engine.step_reasons import StepReasons
from mini_vllm.engine.trace_recorder import StepRecorder
from mini_vllm_labs.serving.live.packed_steps import Chunk, Keyframe, PackedStep, RequestSnapshot, StepChunks, Totals
from mini_vllm_labs.serving.live.waits import SHOWN_SECONDS, waits_of
from mini_vllm_labs.serving.observed import observer_of

MAX_BILLS = 1000
MAX_WAITING_NAMED = 64  # a queue may hold thousands of requests, too many to name in each step
MAX_BLOCKS_IN_EACH_STEP = 4096
"""A larger pool has its free queue and cache recorded only at the start of a chunk; in between they are computed."""


@dataclass
class RequestTotals:
    """A request's costs so far. `num_blocks` is the maximum number of blocks that it held at once.

    The request arrived before step `arrived`, and waited `num_waited` steps before it first ran.
    """

    request_id: str
    num_prompt_tokens: int
    arrived: int
    num_cached_tokens: int = 0
    num_output_tokens: int = 0
    num_blocks: int = 0
    num_preemptions: int = 0
    num_steps: int = 0
    num_waited: int = 0


class RecentSteps(StepRecorder):
    """Packs each step when it ends, and loops over the free queue and the cache only once every 50 steps.

    After `want_pool`, the next step also records the free and the cached blocks, and the steps of the next two seconds
    record why requests are waiting. `bills` contains the totals of the last 1,000 requests that have ended.
    """

    def __init__(self, scheduler: Scheduler, config: EngineConfig) -> None:
        super().__init__(scheduler)
        self.config = config
        self._reasons: StepReasons | None = None
        self._explained_until = 0.0
        self.chunks = StepChunks()
        self.bills: OrderedDict[str, RequestTotals] = OrderedDict()
        self.unfinished: dict[str, tuple[Request, RequestTotals]] = {}
        self._totals, self.last_preemption = Totals(), -1
        self._wants_pool, self._is_broken = False, False
        self._keyframe = b""
        self._record: StepRecord | None = None
        self._lengths: dict[str, int] = {}
        self._next_lengths: dict[str, int] = {}

    @property
    def num_arrived(self) -> int:
        """The number of requests that have arrived since the last step was planned."""
        return len(self._added)

    def want_pool(self) -> None:
        """Make the next step record the free and the cached blocks, and make steps record why requests are waiting."""
        self._wants_pool, self._explained_until = True, time.monotonic() + SHOWN_SECONDS

    def request_added(self, request_id: str) -> None:
        super().request_added(request_id)
        request = self.scheduler.requests[request_id]
        self._next_lengths[request_id] = request.num_prompt_tokens
        totals = RequestTotals(request_id, request.num_prompt_tokens, self.chunks.num_steps)
        self.unfinished[request_id] = request, totals

    def request_aborted(self, request_id: str) -> None:
        super().request_aborted(request_id)
        self._request_ended(request_id)

    def before_schedule(self) -> None:
        super().before_schedule()
        if self._is_broken or self.chunks.needs_keyframe:
            self._keyframe = packed(keyframe_of(self.scheduler))
        is_watched = time.monotonic() < self._explained_until
        if is_watched and self._reasons is None:
            self._reasons = StepReasons(self.scheduler, self.config)
        elif not is_watched and self._reasons is not None:
            self._reasons.calls.leave()
            self._reasons = None

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        self._lengths, self._next_lengths = self._next_lengths, {}  # later arrivals belong to the next step
        record = self._record = self.record_plan(self.chunks.num_steps, scheduler_output)
        for share in record["scheduled"]:
            self._count_step(share["id"], len(share["blocks"]))
            if share["kind"] == "running":
                share["blocks"] = []  # the reader appends the new blocks to its copy of the table
            else:
                self._totals.hit_tokens += share["computed"]
                self._totals.query_tokens += self.scheduler.requests[share["id"]].num_tokens
        if self._reasons is not None:
            record["detail"]["waits"] = waits_of(self._reasons.of_step(scheduler_output)[0])
        self.plan_recorded(record)

    def step_started(self) -> None:
        self._end_step({})

    def step_undone(self) -> None:
        # The recorded steps no longer determine the engine's state, so the next step begins a new chunk.
        self._record, self._is_broken = None, True
        self._in_flight.clear()

    def after_update(self, result: StepResult) -> None:
        assert self._record is not None
        self.record_update(self._record, result)
        for request_id, drafts in result.scheduler_output.scheduled_spec_decode_tokens.items():
            if request_id in result.sampled_token_ids:
                self._totals.drafts += len(drafts)
                # the last token was sampled, not drafted
                self._totals.accepted += max(0, len(result.sampled_token_ids[request_id]) - 1)
        for request in result.ended:
            self._request_ended(request.request_id)
        self._end_step(dict(result.sampled_token_ids))

    def _count_step(self, request_id: str, num_blocks: int) -> None:
        if request_id not in self.unfinished:  # the request arrived before this observer was added
            return
        _, totals = self.unfinished[request_id]
        if not totals.num_steps:
            totals.num_waited = self.chunks.num_steps - totals.arrived
        totals.num_steps += 1
        totals.num_blocks = max(totals.num_blocks, num_blocks)

    def _request_ended(self, request_id: str) -> None:
        self._totals.ended += 1
        if request_id not in self.unfinished:
            return
        request, totals = self.unfinished.pop(request_id)
        totals.num_cached_tokens = max(0, request.num_cached_tokens)  # -1 until first admitted
        totals.num_output_tokens, totals.num_preemptions = request.num_output_tokens, request.num_preemptions
        if not totals.num_steps:
            totals.num_waited = self.chunks.num_steps - totals.arrived
        self.bills[request_id] = totals
        if len(self.bills) > MAX_BILLS:
            self.bills.popitem(last=False)

    def _end_step(self, sampled: dict[str, list[int]]) -> None:
        record, scheduler = self._record, self.scheduler
        assert record is not None
        self.record_end(record)
        self._totals.preemptions += len(record["preempted"])
        if record["preempted"]:
            self.last_preemption = record["step"]
        record["waiting_after"] = [r.request_id for r in islice(scheduler.waiting, MAX_WAITING_NAMED)]
        if self._wants_pool and scheduler.kv.num_usable_blocks <= MAX_BLOCKS_IN_EACH_STEP:
            record["detail"]["free_queue"], record["detail"]["cached"] = pool_of(scheduler)
            self._wants_pool = False
        if self._keyframe:
            self.chunks.begin(self._keyframe)
            self._keyframe, self._is_broken = b"", False
        self.chunks.append(packed(PackedStep(record, sampled, self._lengths, self._totals)))
        self._record = None


def packed(content: Any) -> bytes:
    """Pickle a value into bytes, which the garbage collector need not traverse."""
    return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)


def keyframe_of(scheduler: Scheduler) -> Keyframe:
    """Return a scheduler's state between two steps."""
    block_ids = scheduler.kv.block_ids
    requests = [
        RequestSnapshot(
            r.request_id,
            r.num_prompt_tokens,
            r.num_output_tokens,
            r.num_computed_tokens,
            list(block_ids(r.request_id)) if r.status is RequestStatus.RUNNING else [],
        )
        for r in scheduler.requests.values()
    ]
    return Keyframe(requests, *pool_of(scheduler))


def pool_of(scheduler: Scheduler) -> "tuple[array[int], array[int]]":
    """Return the free queue, front first, and the blocks in the prefix cache."""
    return array("I", scheduler.kv.free_block_ids()), array("I", scheduler.prefix_cache.cached_blocks())


# The server calls these functions in the engine's process, which may not be the server's own process.


def keep_recent_steps(engine: LLMEngine) -> None:
    """Make an engine store its last steps. Call this function before the first step."""
    engine.add_observer(RecentSteps(engine.scheduler, engine.config))


def progress_of(engine: LLMEngine) -> dict[str, int]:
    """Return the range of stored steps, the last step with a preemption (or -1), and the number of new arrivals."""
    recent = observer_of(engine, RecentSteps)
    steps = {"newest": recent.chunks.num_steps - 1, "oldest": recent.chunks.oldest, "preempted": recent.last_preemption}
    return steps | {"num_arrived": recent.num_arrived}


def facts_of(engine: LLMEngine) -> dict[str, Any]:
    """Return the engine's constants that a picture needs."""
    config, kv = engine.config, engine.scheduler.kv
    speculative = config.speculative_config
    return {
        "num_blocks": kv.num_usable_blocks,
        "block_size": kv.block_size,
        "token_budget": config.max_num_batched_tokens,
        "most_running": config.max_num_seqs,
        "prefix_caching": config.enable_prefix_caching,
        "num_drafts": speculative.num_speculative_tokens if speculative else 0,
    }


def steps_since(engine: LLMEngine, step: int) -> list[Chunk]:
    """Return the chunks from `step` on, and make the next step record the free and the cached blocks."""
    recent = observer_of(engine, RecentSteps)
    recent.want_pool()
    return recent.chunks.since(step)


def bill_of(engine: LLMEngine, request_id: str) -> RequestTotals | None:
    """Return the bill of a request that has recently ended, or None."""
    return observer_of(engine, RecentSteps).bills.get(request_id)
