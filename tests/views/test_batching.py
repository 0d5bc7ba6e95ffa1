"""Static and continuous batches: what the engine does is the continuous plan, and the idle area adds up."""

from collections.abc import Callable

import pytest

from course.views.batching import LENGTHS, Plan, batching, batching_panel, continuous, static
from course.workloads.small_workload import Run, policy_of
from course.workloads.timed_request import TimedRequest
from mini_vllm import EngineConfig, parse_lineup
from mini_vllm.core.step_record import StepRecord
from tests.views.runs import played


@pytest.mark.parametrize("num_seats", [1, 3, 4, 8])
def test_the_engine_batches_continuously(num_seats: int) -> None:
    requests = [TimedRequest(0, f"r{n}", [n] * 4, max_tokens=length) for n, length in enumerate(LENGTHS)]
    steps = played(requests, EngineConfig(max_num_seqs=num_seats, max_num_batched_tokens=64, max_model_len=64)).steps
    when = {f"r{n}": [s["step"] for s in steps for share in s["scheduled"] if share["id"] == f"r{n}"] for n in range(8)}
    plan = continuous(LENGTHS, num_seats)
    assert when == {f"r{stay.request}": list(range(stay.start, stay.end)) for stay in plan.stays}
    assert plan.num_steps == len(steps)


@pytest.mark.parametrize(("policy", "plan"), [("static", static), ("fcfs", continuous)])
def test_trace_shows_both_kinds_step_by_step_on_the_engine(policy: str, plan: Callable[..., Plan]) -> None:
    requests = [TimedRequest(0, f"r{n}", [n] * 4, max_tokens=length) for n, length in enumerate(LENGTHS)]
    config = EngineConfig(max_num_seqs=4, max_num_batched_tokens=64, max_model_len=64, num_gpu_blocks=64)
    run = Run(requests, config, parse_lineup("solution:1-5"), policy_of(policy, requests))
    steps, planned = list[StepRecord](), plan(LENGTHS, 4)
    while not run.finished:
        steps.append(run.step())
    when = {f"r{n}": [s["step"] for s in steps for share in s["scheduled"] if share["id"] == f"r{n}"] for n in range(8)}
    assert when == {f"r{stay.request}": list(range(stay.start, stay.end)) for stay in planned.stays}


@pytest.mark.parametrize("plan", [static(LENGTHS, 4), continuous(LENGTHS, 4), static([2], 3)])
def test_a_seat_is_busy_or_idle(plan: Plan) -> None:
    idle = sum(end - start for seat in range(plan.num_seats) for start, end in plan.idle(seat))
    assert idle == plan.num_idle
    assert plan.num_idle + sum(stay.end - stay.start for stay in plan.stays) == plan.num_seats * plan.num_steps


def test_the_knob_changes_the_long_answer_and_impossible_batches_are_refused() -> None:
    panel = batching_panel()
    panel.set(longest=5)
    assert "20 steps become 17" in panel.picture().sentence
    for lengths, seats in (([], 4), ([0], 4), ([3], 0)):
        with pytest.raises(ValueError, match="at least 1"):
            batching(lengths, seats)
