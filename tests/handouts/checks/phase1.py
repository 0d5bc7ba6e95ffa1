"""Functions for the `<!-- check: ... -->` comments in phase 1's handout: small worlds built from the reference."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from math import ceil
from typing import Any
from unittest.mock import patch

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.absent import NoPreemption, NoPrefixCache
from mini_vllm.core.invariants import InvariantError
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.grading.plays.support import make_request
from mini_vllm_labs.runs.workloads.fallbacks import make_possible
from mini_vllm_labs.runs.workloads.simulated_time import StepCost
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload, run_workload
from solutions import phase1_scheduler_step as phase1
from solutions.phase2_block_pool import PagedKVCacheManager
from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy
from tests.handouts.checks.runs import traced_steps

Plan = dict[str, int]


def _slots(num_slots: int = 100_000) -> PagedKVCacheManager:
    """Return a KV cache manager with one-token blocks."""
    return PagedKVCacheManager(num_slots + 1, 1, NoPrefixCache())


def _step(
    running: list[Request], waiting: FCFSRequestQueue, budget: int, kv: PagedKVCacheManager, threshold: int = 0
) -> SchedulerOutput:
    return phase1.schedule_step(
        running,
        waiting,
        max_num_seqs=1000,
        max_num_batched_tokens=budget,
        kv=kv,
        preemption=NoPreemption(),
        chunks=ChunkedPrefillPolicy(phase1.clamp, threshold, max_model_len=1_000_000),
    )


def steps_under(policy: str) -> int:
    """Return the number of steps that `mini-vllm trace --policy` shows for phase 1."""
    return len(traced_steps("solution:1", "--policy", policy))


def plans(prompts: Sequence[int], budget: int, steps: int, num_slots: int = 10_000, threshold: int = 0) -> list[Plan]:
    """Return the first plans for prompts of these lengths, called A, B, C and so on."""
    running: list[Request] = []
    requests = {chr(65 + i): make_request(chr(65 + i), length) for i, length in enumerate(prompts)}
    waiting, kv = FCFSRequestQueue(), _slots(num_slots)
    for request in requests.values():
        waiting.add_request(request)
    made = []
    for _ in range(steps):
        step = _step(running, waiting, budget, kv, threshold)
        sampled = {}
        for request_id, num_tokens in step.num_scheduled_tokens.items():
            request = requests[request_id]
            request.num_computed_tokens += num_tokens
            if request.num_computed_tokens == request.num_tokens:
                sampled[request_id] = [7]
        phase1.update_from_output(step, sampled, requests, running, max_model_len=10_000, kv=kv)
        made.append(step.num_scheduled_tokens)
    return made


def plan(prompts: Sequence[int], budget: int, num_slots: int = 10_000, threshold: int = 0) -> Plan:
    return plans(prompts, budget, 1, num_slots, threshold)[0]


def plan_running(states: Sequence[tuple[int, int]], budget: int, threshold: int = 0) -> Plan:
    """Return the plan for running requests given as (num_tokens, num_computed_tokens)."""
    running = []
    for index, (num_tokens, num_computed) in enumerate(states):
        request = make_request(chr(65 + index), num_tokens, num_computed_tokens=max(1, num_computed))
        request.num_computed_tokens = num_computed
        running.append(request)
    return _step(running, FCFSRequestQueue(), budget, _slots(), threshold).num_scheduled_tokens


def steps_to_first_tokens(prompts: Sequence[int], budget: int) -> int:
    """Return the number of steps after which every prompt is fully computed."""
    for steps in count(1):
        computed: Plan = {}
        for made in plans(prompts, budget, steps):
            for request_id, num_tokens in made.items():
                computed[request_id] = computed.get(request_id, 0) + num_tokens
        if all(computed.get(chr(65 + i), 0) >= length for i, length in enumerate(prompts)):
            return steps
    raise AssertionError("unreachable")


def _overtaking(schedule_step: Callable[..., SchedulerOutput], by_length: bool) -> Callable[..., SchedulerOutput]:
    """Return a step that a learner may try: it admits every request that fits, even ahead of others."""

    def schedule(running: list[Request], waiting: FCFSRequestQueue, **rest: Any) -> SchedulerOutput:
        seats, kv = rest.pop("max_num_seqs"), rest["kv"]
        step = schedule_step(running, waiting, max_num_seqs=0, **rest)
        order = sorted(waiting, key=lambda request: request.num_tokens) if by_length else list(waiting)
        for request in order:
            n = rest["chunks"].num_new_tokens(request, 0, step.token_budget)
            if not n or len(running) >= seats or kv.allocate_slots(request, n) is None:
                continue
            waiting.remove_request(request)
            running.append(request)
            request.status = RequestStatus.RUNNING
            step.num_scheduled_tokens[request.request_id] = n
            step.token_budget -= n
        return step

    return schedule


def _trace(
    overtake: bool, by_length: bool = False, check_invariants: bool = False, **settings: Any
) -> list[StepRecord]:
    lineup = parse_lineup("solution:1")
    possible, _ = make_possible(SMALL_POOL, lineup)
    config = replace(possible, check_invariants=check_invariants, **settings)
    step = _overtaking(phase1.schedule_step, by_length) if overtake else phase1.schedule_step
    with patch.object(phase1, "schedule_step", step):
        return run_workload(make_workload(0, 30), config, lineup)


def first_tokens(overtake: bool, by_length: bool = False) -> tuple[int, int, int]:
    """Return how many steps the trace has, and when the last request and r11 get their first tokens."""
    records, first = _trace(overtake, by_length), dict[str, int]()
    for record in records:
        for share in record["scheduled"]:
            first.setdefault(share["id"], record["step"])
    return len(records), max(first.values()), first["r11"]


def longest_prompt() -> tuple[int, str]:
    return max((len(one.prompt_token_ids), one.request_id) for one in make_workload(0, 30))


def broken_order() -> str:
    try:
        _trace(True, check_invariants=True)
    except InvariantError as error:
        return str(error)
    return ""


def prompt_and_steps(prompt: int, num_steps: int, num_running: int) -> tuple[int, int]:
    """Return how many ms one prompt takes, and how many ms steps with this many decoding requests take."""
    cost = StepCost()
    ms = [1000 * (cost.per_step + n * (cost.per_token + cost.per_context_token)) for n in (prompt, num_running)]
    return round(ms[0]), round(num_steps * ms[1])


def steps_with_seats(max_num_seqs: int) -> int:
    return len(_trace(False, max_num_seqs=max_num_seqs))
