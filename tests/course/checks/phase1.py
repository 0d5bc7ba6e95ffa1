"""What the `<!-- check: ... -->` comments in the handouts may call: small worlds built from the reference."""

from collections.abc import Sequence
from itertools import count
from math import ceil

from labs.support import ClampChunks, SlotCountingKV, make_request, waiting_queue
from mini_vllm.absent import NoPreemption
from mini_vllm.request import Request
from mini_vllm.request_queue import FCFSRequestQueue
from mini_vllm.step import SchedulerOutput
from solutions import phase1_scheduler_step as phase1

__all__ = ["NAMESPACE"]

Plan = dict[str, int]


def _step(
    running: list[Request], waiting: FCFSRequestQueue, budget: int, kv: SlotCountingKV, threshold: int = 0
) -> SchedulerOutput:
    return phase1.schedule_step(
        running,
        waiting,
        max_num_seqs=100,
        max_num_batched_tokens=budget,
        kv=kv,
        preemption=NoPreemption(),
        chunks=ClampChunks(phase1.clamp, threshold),
    )


def plans(prompts: Sequence[int], budget: int, steps: int, num_slots: int = 10_000, threshold: int = 0) -> list[Plan]:
    """Return the first plans for prompts of these lengths, called A, B, C and so on; everybody who can samples."""
    running: list[Request] = []
    waiting = waiting_queue(make_request(chr(65 + i), length) for i, length in enumerate(prompts))
    requests = {request.request_id: request for request in waiting}
    kv = SlotCountingKV(num_slots)
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
    """Return the first plan."""
    return plans(prompts, budget, 1, num_slots, threshold)[0]


def plan_running(states: Sequence[tuple[int, int]], budget: int) -> Plan:
    """Return the plan for running requests given as (num_tokens, num_computed_tokens)."""
    running = []
    for index, (num_tokens, num_computed) in enumerate(states):
        request = make_request(chr(65 + index), num_tokens, num_computed_tokens=max(1, num_computed))
        request.num_computed_tokens = num_computed
        running.append(request)
    return _step(running, waiting_queue([]), budget, SlotCountingKV(10_000)).num_scheduled_tokens


def steps_to_first_tokens(prompts: Sequence[int], budget: int) -> int:
    """Return after how many steps every prompt is computed to its end."""
    for steps in count(1):
        computed: Plan = {}
        for made in plans(prompts, budget, steps):
            for request_id, num_tokens in made.items():
                computed[request_id] = computed.get(request_id, 0) + num_tokens
        if all(computed.get(chr(65 + i), 0) >= length for i, length in enumerate(prompts)):
            return steps
    raise AssertionError("unreachable")


NAMESPACE = {
    "ceil": ceil,
    "plan": plan,
    "plans": plans,
    "plan_running": plan_running,
    "steps_to_first_tokens": steps_to_first_tokens,
}
