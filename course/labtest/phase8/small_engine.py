"""The engine's own scheduler around your methods, with plain phases and a fake model. Nothing here is to be filled in.

A step is planned first, then the results of the one before arrive and correct it, then it is computed. Memory is
large: a request is preempted only where the test asks for it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from course.labtest.phase8.cases import scheduling_of
from course.labtest.phase8.shares import PlannedShare, check_result
from course.views.text import counted
from mini_vllm.core.absent import NoPreemption, NoPrefixCache, SlotReservation
from mini_vllm.core.electives import Speculation
from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, RequestQueue, SchedulingFunctions
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.scheduler import Scheduler, SchedulerParts
from mini_vllm.core.step import ScheduledRequest, SchedulerOutput
from mini_vllm.core.stopping import check_stop
from mini_vllm.core.tokens_ahead import TokensAhead
from mini_vllm.runner.fake_model_runner import FakeModelRunner

ANSWERS = range(40)
MAX_MODEL_LEN, NUM_SLOTS, MAX_STEPS = 64, 600, 300
Guess = Callable[[str, int], list[int]]


class SmallEngine:
    """Runs requests to their end. `guess(request_id, num_outputs)` returns the drafts after that many outputs."""

    def __init__(
        self, phase8: ModuleType, *, num_drafts: int = 0, budget: int = 16, guess: Guess | None = None
    ) -> None:
        self.correct_share = phase8.correct_share
        self.num_drafts = num_drafts
        self.guess = guess or (lambda request_id, num_outputs: [])
        scheduling = scheduling_of(phase8, num_drafts)

        def clamp(num_new: int, budget: int, threshold: int) -> int:
            return max(0, min(num_new, budget))

        # Local functions and lambdas: what a starter could import here would be the answer to a task.
        chunks: Any = SimpleNamespace(
            num_new_tokens=lambda request, num_computed, budget: clamp(request.num_tokens - num_computed, budget, 0),
            admits=lambda *given: True,
            should_sample=lambda request, num_computed: not request.all_token_ids[num_computed:],
        )

        def schedule(running: list[Request], waiting: RequestQueue, **given: Any) -> SchedulerOutput:
            return self._plan(running, waiting, given["kv"], given["chunks"])

        def update(
            scheduler_output: SchedulerOutput, sampled_token_ids: dict[str, list[int]], *_: Any, **given: Any
        ) -> dict[str, list[int]]:
            return {name: kept for name, tokens in sampled_token_ids.items() if (kept := self._append(name, tokens))}

        def accept(draft_token_ids: Sequence[int], sampled_token_ids: Sequence[int]) -> list[int]:
            pairs = zip([*draft_token_ids, None], sampled_token_ids, strict=True)
            return list(sampled_token_ids[: 1 + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))])

        def make_parts() -> SchedulerParts:
            prefix_cache = NoPrefixCache()
            ahead = TokensAhead(
                self._counted_drafts() if num_drafts else None,
                scheduling,
                MAX_MODEL_LEN,
                chunks=chunks,
                kv=SlotReservation(NUM_SLOTS, MAX_MODEL_LEN),
                prefix_cache=prefix_cache,
            )
            return SchedulerParts(ahead.kv, prefix_cache, NoPreemption(), ahead.chunks, FCFSRequestQueue(), ahead)

        self.scheduler = Scheduler(
            max_num_seqs=8,
            max_num_batched_tokens=budget,
            max_model_len=MAX_MODEL_LEN,
            functions=SchedulingFunctions(clamp, schedule, update),
            make_parts=make_parts,
        )
        self.runner = FakeModelRunner(NUM_SLOTS + 1, 1, answers=ANSWERS, accept_drafts=accept)
        self.requests: dict[str, Request] = {}
        self.drafts: dict[str, list[int]] = {}
        self.plans: list[dict[str, int]] = []
        self.num_wasted_tokens = 0

    def add(self, request: Request) -> None:
        self.requests[request.request_id] = request
        self.scheduler.add_request(request)

    def run(self, preempts: Mapping[int, str] | None = None, aborts: Mapping[int, str] | None = None) -> None:
        """Run until no request is left. `preempts` and `aborts` name a request for a step, before that is planned."""
        in_flight: tuple[SchedulerOutput, dict[str, list[int]]] | None = None
        while self.scheduler.has_unfinished_requests() and len(self.plans) < MAX_STEPS:
            number = len(self.plans)
            victim = self._preempt((preempts or {}).get(number, ""))
            self.scheduler.finish_request((aborts or {}).get(number, ""), RequestStatus.FINISHED_ABORTED)
            plan = self.scheduler.schedule()
            if victim is not None:  # no request is admitted in the step of a preemption
                self.scheduler.waiting.prepend_request(victim)
            batch = self.scheduler.start_step(plan)
            self.plans.append(dict(plan.num_scheduled_tokens))
            rejected: dict[str, int] = {}
            if in_flight is not None:
                rejected = self._results_arrive(*in_flight)
            living = [one for one in batch if one.request.request_id in self.scheduler.requests]
            self.num_wasted_tokens += sum(one.num_scheduled_tokens for one in batch if one not in living)
            in_flight = (plan, self._compute(living, rejected))

    def _plan(
        self, running: list[Request], waiting: RequestQueue, kv: KVCacheManager, chunks: ChunkPolicy
    ) -> SchedulerOutput:
        """Give tokens to the requests that run, in order, then to those that wait. Memory is never short."""
        plan = SchedulerOutput(self.scheduler.max_num_batched_tokens)
        served = 0
        while plan.token_budget > 0 and (served < len(running) or waiting):
            if served == len(running):
                running.append(waiting.pop_request())
            request = running[served]
            served += 1
            num_new = chunks.num_new_tokens(request, request.num_computed_tokens, plan.token_budget)
            if num_new > 0:
                kv.allocate_slots(request, num_new)
                request.admit(request.num_computed_tokens)
                plan.num_scheduled_tokens[request.request_id] = num_new
                plan.token_budget -= num_new
        return plan

    def _append(self, name: str, token_ids: Sequence[int]) -> list[int]:
        """Append what was sampled for a request up to a stop, and return it."""
        request = self.scheduler.requests.get(name)
        for number, token_id in enumerate(token_ids if request else (), start=1):
            assert request is not None
            request.all_token_ids.append(token_id)
            if check_stop(request, MAX_MODEL_LEN):
                self.scheduler.kv.free(request, request.num_computed_tokens)
                self.scheduler.running[:] = [other for other in self.scheduler.running if other is not request]
                return list(token_ids[:number])
        return list(token_ids) if request else []

    def _counted_drafts(self) -> Speculation:
        """Return drafts in the request's counters, for a drafter without a KV cache."""

        def schedule_drafts(request: Request) -> list[int]:
            known = request.num_tokens + request.num_output_placeholders
            drafts = list(request.spec_token_ids)[: max(0, request.num_computed_tokens - known)]
            request.spec_token_ids = []
            return drafts

        def roll_back(request: Request, num_draft_tokens: int, num_sampled_tokens: int) -> None:
            for _ in range(1 + num_draft_tokens - num_sampled_tokens):
                request.num_computed_tokens -= request.num_computed_tokens > 0
                request.num_output_placeholders -= request.num_output_placeholders > 0

        drafts: Any = SimpleNamespace(
            num_lookahead_tokens=lambda request: 0,
            usable_hit_blocks=lambda hit_blocks: hit_blocks,
            schedule_drafts=schedule_drafts,
            roll_back=roll_back,
        )
        return cast(Speculation, drafts)

    def outputs(self) -> dict[str, list[int]]:
        return {name: request.output_token_ids for name, request in self.requests.items()}

    def _preempt(self, name: str) -> Request | None:
        """Preempt a request if it runs, and return it."""
        request = self.scheduler.requests.get(name)
        if request is None or request.status is not RequestStatus.RUNNING:
            return None
        self.scheduler.running.remove(request)
        self.scheduler.kv.free(request, request.num_computed_tokens)
        request.preempt()
        return request

    def _results_arrive(self, plan: SchedulerOutput, sampled: dict[str, list[int]]) -> dict[str, int]:
        """Update the scheduler; return how many drafts of each request were rejected."""
        drafted = plan.scheduled_spec_decode_tokens
        rejected = {name: len(drafted.get(name, [])) - (len(tokens) - 1) for name, tokens in sampled.items()}
        self.scheduler.update_from_output(plan, sampled)
        for name in sampled:
            request = self.requests[name]
            num_left = request.sampling_params.max_tokens - request.num_output_tokens
            guessed = self.guess(name, request.num_output_tokens)
            self.drafts[name] = guessed[: min(self.num_drafts, max(0, num_left - 1))]
        return rejected

    def _compute(self, batch: Sequence[ScheduledRequest], rejected: Mapping[str, int]) -> dict[str, list[int]]:
        shares = []
        for share in batch:
            name = share.request.request_id
            num_rejected, drafts = int(rejected.get(name, 0)), list(self.drafts.get(name, []))
            num_places = len(share.draft_token_ids)
            known = int(share.num_scheduled_tokens) - num_places
            plan = PlannedShare(int(share.num_computed_tokens), known, num_places, num_rejected, drafts)
            planned = (share.request, list(share.block_ids), share.needs_token)
            shares.append(self.correct_share(share, num_rejected, list(drafts)))
            lines = [
                f"plan {len(self.plans) - 1}: {counted(plan.size, 'token')} of {name} from {plan.start} on, at the end "
                f"of them {counted(num_places, 'stand-in')}",
                f"correct_share(share, {num_rejected}, {drafts})",
            ]
            check_result(shares[-1], plan, planned, lines)
        return self.runner.execute_model(shares).sampled_token_ids
