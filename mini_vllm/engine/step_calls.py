"""Records the calls that a step makes to phases 2 and 5 for each request, and what they returned."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from mini_vllm.core.absent import SlotReservation
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, ScheduleStep
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.gates.gated import transfers_of
from mini_vllm.electives.tokens_ahead import KVCacheAhead
from mini_vllm.electives.windows.grouped_kv_cache import GroupedKVCacheManager
from mini_vllm.electives.wrappers import WrappedChunks, WrappedKVCache

if TYPE_CHECKING:  # the default rules (0.13.0) do not need modules for later releases
    from mini_vllm.electives.releases.step_state import StepState


@dataclass(slots=True)
class Shortage:
    """The numbers in phase 2's refusal: blocks needed, free, promised to others, and kept free."""

    needed: int
    free: int
    promised: int = 0
    kept: int = 0

    @property
    def is_real(self) -> bool:
        return self.needed + self.promised + self.kept > self.free


Asked = tuple[int | None, int, int]
"""Phase 5's last answer about a request, None if it was not asked; and the computed tokens and budget of that call."""
NOT_ASKED: Asked = (None, 0, 0)
RUNNING = RequestStatus.RUNNING


class StepCalls:
    """The calls of the newest step. The object observes the scheduler until `leave` is called.

    `asked` contains all requests for which phase 5 or phase 2 was called; `guarded` and `shortages` contain those whose
    last call was refused. `short` contains the running requests that were refused blocks, in order; `head` is the last
    waiting request that was considered. Most calls succeed, so a successful call stores a single tuple: more would slow
    down every step.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._clear()
        scheduler.witnesses.append(self.watch)

    def leave(self) -> None:
        self.scheduler.witnesses.remove(self.watch)

    def _clear(self) -> None:
        self.asked: dict[str, Asked] = {}
        self.guarded: set[str] = set()
        self.shortages: dict[str, Shortage] = {}
        self.short: list[str] = []
        self.head: str | None = None

    def watch(self, schedule_step: ScheduleStep) -> ScheduleStep:
        """Return a `schedule_step` that wraps the parts before it passes them to the given function."""
        return partial(self._schedule_step, schedule_step)

    def _schedule_step(
        self, inner: ScheduleStep, *queues: Any, kv: KVCacheManager, chunks: ChunkPolicy, **others: Any
    ) -> SchedulerOutput:
        self._clear()
        return inner(*queues, kv=WatchedKVCache(kv, self), chunks=WatchedChunks(chunks, self), **others)

    def note(self, request: Request) -> str:
        """Record that a request was considered, unless that is already recorded, and return its id."""
        name = request.request_id
        self.asked.setdefault(name, NOT_ASKED)
        if request.status is not RUNNING:
            self.head = name
        return name


class WatchedChunks(WrappedChunks):
    """Phase 5 with a record of what it returned."""

    def __init__(self, inner: ChunkPolicy, calls: StepCalls) -> None:
        super().__init__(inner)
        self.calls = calls

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        granted = self.inner.num_new_tokens(request, num_computed_tokens, token_budget)
        self.calls.asked[request.request_id] = granted, num_computed_tokens, token_budget
        if request.status is not RUNNING:
            self.calls.head = request.request_id
        return granted

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        admits = self.inner.admits(request, hit_blocks, running, kv)
        name = self.calls.note(request)
        (self.calls.guarded.discard if admits else self.calls.guarded.add)(name)
        return admits


class WatchedKVCache(WrappedKVCache):
    """Phase 2 with a record of its refusals and their numbers."""

    def __init__(self, inner: KVCacheManager, calls: StepCalls) -> None:
        super().__init__(inner)
        self.calls = calls

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        new_blocks = self.inner.allocate_slots(request, num_new_tokens, hit_blocks, num_lookahead_tokens)
        if new_blocks is None:
            scheduler, is_running = self.calls.scheduler, request.status is RUNNING
            transfers = transfers_of(scheduler)
            num_external = transfers.num_external_tokens.get(request.request_id, 0) if transfers else 0
            num_external = 0 if is_running or request.num_computed_tokens else num_external
            num_slots = num_new_tokens + num_external
            shortage = shortage_of(scheduler, self.inner, request, num_slots, hit_blocks, num_lookahead_tokens)
            self.calls.shortages[name := self.calls.note(request)] = shortage
            if is_running and name not in self.calls.short:
                self.calls.short.append(name)
        elif self.calls.shortages:
            self.calls.shortages.pop(request.request_id, None)
        return new_blocks


def shortage_of(
    scheduler: Scheduler,
    kv: KVCacheManager,
    request: Request,
    num_slots: int,
    hit_blocks: Sequence[int],
    num_lookahead_tokens: int = 0,
) -> Shortage:
    """Return the numbers of a refusal that has just occurred. No state has changed since the refusal."""
    end = request.num_computed_tokens + len(hit_blocks) * kv.block_size + num_slots
    while isinstance(kv, WrappedKVCache):
        if isinstance(kv, KVCacheAhead):
            if kv.speculation is not None:
                num_lookahead_tokens += kv.speculation.num_lookahead_tokens(request)
            num_lookahead_tokens = min(num_lookahead_tokens, scheduler.max_model_len - end)
        kv = kv.inner
    is_running = request.status is RUNNING
    release = cast("StepState | None", scheduler.release)
    if release is not None and (room := release.refused_room) is not None and not is_running:
        kept = int(room.watermark * room.num_gpu_blocks) if room.has_running else 0
        for_step = (room.num_for_step, room.num_promised if room.is_load else 0)
        needed, promised = max(for_step, (room.num_for_sequence or 0, room.num_promised), key=sum)
        return Shortage(needed, room.num_free, promised, kept)
    if isinstance(kv, SlotReservation):
        return Shortage(request.max_total_tokens(scheduler.max_model_len) - 1, kv.num_free_blocks)
    if isinstance(kv, GroupedKVCacheManager):
        return Shortage(kv.num_wanted(request, end + num_lookahead_tokens, hit_blocks), kv.num_free_blocks)
    num_held = len(kv.block_ids(request.request_id)) or len(hit_blocks)
    num_free_hits = len(set(hit_blocks) - kv.ref_counts().keys()) if hit_blocks else 0
    needed = cdiv(end + num_lookahead_tokens, kv.block_size) - num_held + num_free_hits
    return Shortage(needed, kv.num_free_blocks)
