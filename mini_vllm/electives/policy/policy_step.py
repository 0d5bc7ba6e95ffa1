"""Applies a policy to phase 1's functions by reordering the lists and reducing the budgets that they receive."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mini_vllm.core.interfaces import (
    ChunkPolicy,
    KVCacheManager,
    Preemption,
    RequestQueue,
    SchedulingFunctions,
)
from mini_vllm.core.request import Request
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.step import Preempted, SchedulerOutput
from mini_vllm.electives.policy.policy_queue import PolicyQueue
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.electives.wrappers import WrappedChunks

MAX_PREEMPTIONS = 3


class PolicyScheduling:
    """Phases 1 and 3 and the waiting queue under a policy. `clock` must be the clock used for arrival times."""

    def __init__(self, policy: SchedulingPolicy, inner: SchedulingFunctions, clock: Callable[[], float]) -> None:
        self.policy = policy
        self.inner = inner
        self.clock = clock
        self.waiting: RequestQueue = FCFSRequestQueue()
        # Only decisions that a policy overrides are wrapped, so the others cost nothing extra.
        self._limits, self._counts = _decides(policy, "token_limit", "admits"), _decides(policy, "scheduled")
        orders = _decides(policy, "start_step", "to_preempt", "serve_order") or not policy.rank_is_fixed
        plans = orders or self._limits or self._counts
        self.functions = SchedulingFunctions(
            inner.clamp,
            self.schedule_step if plans else inner.schedule_step,
            self.update_from_output if _decides(policy, "sampled") else inner.update_from_output,
        )

    def new_queue(self) -> RequestQueue:
        """Return an empty waiting queue, and use this queue from now on."""
        self.waiting = PolicyQueue(self.policy) if _decides(self.policy, "rank") else FCFSRequestQueue()
        return self.waiting

    def preemption(self, inner: Preemption) -> Preemption:
        """Return phase 3 with the policy's order of victims."""
        return OrderedPreemption(inner, self.policy) if _decides(self.policy, "victims") else inner

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
        """Plan one step as phase 1 does, with the policy's order, victims and shares."""
        policy = self.policy
        step = StepView(
            self.clock(), running, self.waiting, kv.num_free_blocks, kv.block_size, max_num_seqs, max_num_batched_tokens
        )
        policy.start_step(step)
        if isinstance(self.waiting, PolicyQueue) and not policy.rank_is_fixed:
            self.waiting.sort()
        first = next(iter(self.waiting), None)
        preempted = [_preempt(victim, first or victim, running, waiting, kv) for victim in policy.to_preempt(step)]
        order = policy.serve_order(running)
        if order is not running:
            running[:] = order
        limited = LimitedChunks(chunks, policy, {entry.victim_id for entry in preempted})
        for each in (limited, chunks) if self._limits or preempted else (chunks,):
            scheduler_output = self.inner.schedule_step(
                running,
                waiting,
                max_num_seqs=max_num_seqs,
                max_num_batched_tokens=max_num_batched_tokens,
                kv=kv,
                preemption=preemption,
                chunks=each,
            )
            # If the limits leave a step empty, plan it again without them; otherwise the engine would stall.
            if scheduler_output.num_scheduled_tokens or scheduler_output.preempted or preempted:
                break
        scheduler_output.preempted[:0] = preempted
        if self._counts:
            planned = scheduler_output.num_scheduled_tokens
            policy.scheduled([(r, planned[r.request_id]) for r in running if r.request_id in planned])
        return scheduler_output

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
        """Apply the sampled tokens as phase 1 does, and report each request's number of tokens to the policy."""
        kept = self.inner.update_from_output(
            scheduler_output, sampled_token_ids, requests, running, max_model_len=max_model_len, kv=kv
        )
        for request_id, token_ids in kept.items():
            self.policy.sampled(requests[request_id], len(token_ids))
        return kept


@dataclass(frozen=True, slots=True)
class OrderedPreemption:
    """Phase 3 under a policy. Phase 3 preempts the last request in a list, so this class passes it the policy's
    list."""

    inner: Preemption
    policy: SchedulingPolicy

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: KVCacheManager,
    ) -> bool:
        candidates = self.policy.victims(running)[::-1]
        if not any(candidate is request for candidate in candidates):
            candidates.insert(0, request)  # preempt the request itself if preempting all others was not enough
        if not self.policy.rank_is_fixed and running[0].num_preemptions >= MAX_PREEMPTIONS:
            # As long as ranks keep changing, two requests could take each other's blocks forever. If the head of
            # `running` has been preempted often, it becomes the last victim, so that it can finish.
            candidates = [running[0], *(each for each in candidates if each is not running[0])]
        has_room = self.inner.make_room(request, num_new_tokens, candidates, waiting, scheduler_output, kv)
        victims = {entry.victim_id for entry in scheduler_output.preempted}
        running[:] = [each for each in running if each.request_id not in victims]
        return has_room


class LimitedChunks(WrappedChunks):
    """Phase 5 under a policy: limits each request to the policy's share of the budget."""

    def __init__(self, inner: ChunkPolicy, policy: SchedulingPolicy, just_preempted: set[str]) -> None:
        super().__init__(inner)
        self.policy = policy
        self.just_preempted = just_preempted

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        limit = self.policy.token_limit(request, token_budget)
        return self.inner.num_new_tokens(request, num_computed_tokens, min(limit, token_budget)) if limit > 0 else 0

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        if request.request_id in self.just_preempted or not self.policy.admits(request, running):
            return False
        return self.inner.admits(request, hit_blocks, running, kv)


def _decides(policy: SchedulingPolicy, *names: str) -> bool:
    """Return whether a policy overrides one of these methods."""
    owns = (getattr(getattr(policy, name), "__func__", None) for name in names)
    return any(own is not getattr(SchedulingPolicy, name) for own, name in zip(owns, names, strict=True))


def _preempt(
    victim: Request, cause: Request, running: list[Request], waiting: RequestQueue, kv: KVCacheManager
) -> Preempted:
    running.remove(victim)
    kv.free(victim, victim.num_computed_tokens)
    victim.preempt()
    waiting.prepend_request(victim)
    return Preempted(victim.request_id, cause.request_id, 0)
