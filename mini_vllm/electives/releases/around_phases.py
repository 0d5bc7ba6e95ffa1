"""Wraps phases 1, 2, 3 and 5 for the rules after 0.13.0: changes their inputs and restricts their decisions."""

from collections.abc import Callable, Sequence
from functools import partial

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue, SchedulingFunctions
from mini_vllm.core.request import RUNNING, Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.releases.step_state import PauseState, StepState
from mini_vllm.electives.wrappers import WrappedChunks, WrappedKVCache

UNKNOWN = -1


class NewerChunks(WrappedChunks):
    """Phase 5 with a row limit, a prefill interval, and padding for single tokens."""

    def __init__(self, inner: ChunkPolicy, step: StepState) -> None:
        super().__init__(inner)
        self.step = step

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        step = self.step
        if step.limits_rows:
            token_budget = min(token_budget, step.num_rows_left)
        if token_budget <= 0:
            return 0
        if request.status is RUNNING:
            if step.holds_prompts and request.request_id in step.in_prompt:
                return 0
            if step.left is not None and request.request_id not in step.left:
                return 0
            return self.inner.num_new_tokens(request, num_computed_tokens, token_budget)
        if step.holds_prompts and num_computed_tokens < request.num_tokens - 1:
            return 0
        if not step.pads(request, num_computed_tokens):
            return self.inner.num_new_tokens(request, num_computed_tokens, token_budget)
        padded = request.followed_by([UNKNOWN] * step.num_drafts)
        num_new_tokens = self.inner.num_new_tokens(padded, num_computed_tokens, token_budget)
        if num_new_tokens <= step.num_drafts:
            return 0  # the request waits until there is room, because a smaller share would make the batch uneven
        step.padded.add(request.request_id)
        return num_new_tokens


class NewerPreemption:
    """Phase 3 under the newer rules: clears a victim's placeholders and drafts.

    Phase 14 decides which running requests phase 1 still serves after a preemption.
    """

    def __init__(self, inner: Preemption, step: StepState) -> None:
        self.inner = inner
        self.step = step

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: KVCacheManager,
    ) -> bool:
        step, num_before = self.step, len(scheduler_output.preempted)
        candidates = [one for one in running if one not in step.gone]
        order = [one.request_id for one in candidates]  # phase 3 removes the victims from `candidates`
        if step.defers_frees:
            kv = NotInFlight(kv, step)
        try:
            has_room = self.inner.make_room(request, num_new_tokens, candidates, waiting, scheduler_output, kv)
        except StepInFlightError:  # a budget of 0 ends phase 1's loop over the running requests
            has_room, step.budget_kept, scheduler_output.token_budget = False, scheduler_output.token_budget, 0
        victims = {entry.victim_id for entry in scheduler_output.preempted[num_before:]}
        if victims:
            step.left = frozenset(step.functions.requests_left(order, request.request_id, victims))
        for victim in [one for one in running if one.request_id in victims]:
            if step.rules.in_flight_is_forgotten:
                forget_in_flight(victim)
            if victim is request and step.left:
                # Until the step is planned, phase 1 must not preempt the victim again.
                victim.status = RequestStatus.RUNNING
                step.gone.append(victim)
            else:
                running.remove(victim)
        return has_room


class StepInFlightError(Exception):
    """A step in flight may still write to the next victim's blocks, so they cannot be freed yet."""


class NotInFlight(WrappedKVCache):
    """Phase 2 as phase 3 sees it when frees are deferred: refuses a victim in flight before any state changes."""

    def __init__(self, inner: KVCacheManager, step: StepState) -> None:
        super().__init__(inner)
        self.step = step

    def free(self, request: Request, num_computed_tokens: int) -> None:
        if self.step.is_in_flight(request):
            raise StepInFlightError
        self.inner.free(request, num_computed_tokens)


def forget_in_flight(victim: Request) -> None:
    """Clear a preempted request's placeholders and drafts. The request's tokens in flight are kept when they arrive."""
    victim.num_output_placeholders, victim.spec_token_ids = 0, []


class SharesCounted(WrappedKVCache):
    """Phase 2 as phase 1 sees it, which records in `step` what phase 1 has planned so far."""

    def __init__(self, inner: KVCacheManager, step: StepState) -> None:
        super().__init__(inner)
        self.step = step

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        new_blocks = self.inner.allocate_slots(request, num_new_tokens, hit_blocks, num_lookahead_tokens)
        is_counted = self.step.counts_shares or request.status is not RUNNING
        if is_counted and new_blocks is not None:
            num_hit_tokens = len(hit_blocks) * self.block_size
            self.step.takes(request, request.num_computed_tokens + num_hit_tokens, num_new_tokens)
        return new_blocks

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.inner.free(request, num_computed_tokens)
        self.step.leaves(request)
        if request.is_finished:
            self.step.forget(request.request_id)


class NewerFunctions:
    """Phase 1 with the release's limits. `processed` is called for each request before its tokens are applied."""

    def __init__(
        self, inner: SchedulingFunctions, step: StepState, processed: Callable[[Request], None] | None
    ) -> None:
        self.inner = inner
        self.step = step
        self.processed = processed
        update = inner.update_from_output if processed is None else self.update_from_output
        self.functions = SchedulingFunctions(inner.clamp, self.schedule_step, update)

    def update_from_output(
        self,
        scheduler_output: SchedulerOutput,
        sampled_token_ids: dict[str, list[int]],
        requests: dict[str, Request],
        running: list[Request],
        *,
        max_model_len: int,
        kv: KVCacheManager,
    ) -> dict[str, list[int]]:
        """Apply the sampled tokens as phase 1 does."""
        assert self.processed is not None
        for request in filter(None, map(requests.get, scheduler_output.num_scheduled_tokens)):
            self.processed(request)
        return self.inner.update_from_output(
            scheduler_output, sampled_token_ids, requests, running, max_model_len=max_model_len, kv=kv
        )

    def schedule_step(
        self,
        running: list[Request],
        waiting: RequestQueue,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        kv: KVCacheManager,
        preemption: Preemption,
        chunks: ChunkPolicy,
    ) -> SchedulerOutput:
        """Plan one step as phase 1 does."""
        step = self.step
        step.start(running, waiting)
        by_reset, step.reset = step.reset, []
        if step.pause_state is PauseState.PAUSED_ALL:
            return SchedulerOutput(max_num_batched_tokens, preempted=by_reset)
        is_paused = step.pause_state is PauseState.PAUSED_NEW
        if step.holders is not None:
            step.holders.is_paused = is_paused
        elif is_paused:
            max_num_seqs = min(max_num_seqs, len(running))
        # Most steps only decode. In such steps, one extra call per request and wrapper would be a large part of the
        # cost.
        if isinstance(kv, SharesCounted) and isinstance(chunks, NewerChunks):
            may_admit = bool(waiting) and len(running) < max_num_seqs
            if not may_admit and step.can_skip_newer_rules(kv.num_free_blocks):
                kv, chunks = kv.inner, chunks.inner
        plan = partial(self.inner.schedule_step, waiting=waiting, kv=kv, preemption=preemption, chunks=chunks)
        scheduler_output = plan(running, max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens)
        if step.budget_kept is not None:
            scheduler_output.token_budget, step.budget_kept = step.budget_kept, None
            # a budget of 0 has prevented admission, but only a preemption is allowed to do that
            if not scheduler_output.preempted:
                self._admit(scheduler_output, running, max_num_seqs, plan)
        if step.holders is not None:
            step.holders.is_paused = False
        scheduler_output.preempted[:0] = by_reset
        for request in step.gone:
            running.remove(request)
            request.status = RequestStatus.PREEMPTED
        for request in running if step.padded else ():
            if request.request_id in step.padded & step.admitted:
                request.spec_token_ids = [UNKNOWN] * step.num_drafts
        return scheduler_output

    def _admit(
        self,
        scheduler_output: SchedulerOutput,
        running: list[Request],
        max_num_seqs: int,
        plan: Callable[..., SchedulerOutput],
    ) -> None:
        """Restrict phase 1 to admitting requests, within the request slots and the budget left over by the running
        requests."""
        admitted: list[Request] = []
        num_seats = max_num_seqs - len(running)
        more = plan(admitted, max_num_seqs=num_seats, max_num_batched_tokens=scheduler_output.token_budget)
        running += admitted
        scheduler_output.num_scheduled_tokens |= more.num_scheduled_tokens
        scheduler_output.token_budget = more.token_budget
