"""Gates as recorded in each step, and slots of static and continuous batches that add up."""

from collections.abc import Callable

import pytest

from mini_vllm import EngineConfig, parse_lineup
from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.notebook import Lab, Notice, watch_gates
from mini_vllm_labs.pictures.batching import LENGTHS, Plan, batching, batching_panel, continuous, static
from mini_vllm_labs.pictures.gates import gate_of, gates
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.workloads.small_workload import Run, policy_of
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.runs.workloads.two_gates import TWO_GATES, two_gates
from tests.views.runs import large, played, small
from tests.views.svg_reader import described, is_sound


@pytest.mark.parametrize(
    ("total", "seated", "waiting", "preempted", "gate"),
    [
        (256, 3, 0, 0, "compute"),
        (256, 8, 2, 1, "compute"),
        (255, 8, 1, 0, "seats"),
        (255, 8, 0, 0, ""),
        (255, 7, 1, 0, "memory"),
        (255, 7, 0, 1, "memory"),
        (0, 0, 0, 0, ""),
    ],
)
def test_a_gate_is_what_let_no_more_tokens_in(total: int, seated: int, waiting: int, preempted: int, gate: str) -> None:
    assert gate_of(total, seated, waiting, preempted, large().info) == gate


@pytest.mark.parametrize("recording", [small(), large()], ids=["small", "large"])
def test_each_picture_tells_its_step(recording: Recording) -> None:
    info, film = recording.info, gates(recording)
    for record, picture in zip(recording.steps, film.pictures, strict=True):
        said = described(picture)
        prompts = [one["n"] for one in record["scheduled"] if one["computed"] < info.num_prompt_tokens[one["id"]]]
        assert is_sound(picture)
        assert (said["gate"] == "seats") <= (len(record["scheduled"]) == info.max_num_seqs)
        assert said["tokens"].startswith(f"{record['total']} of {info.token_budget}, ")
        assert int(said["tokens"].split()[-2]) <= record["total"] - sum(prompts)
        assert said["blocks"] == f"{info.num_blocks - record['free_after_schedule']} of {info.num_blocks} in use"
        running, waiting, lost = (len(record[key]) for key in ("running_after", "waiting_after", "preempted"))
        assert said["requests"] == f"{running} running, {waiting} waiting, {lost} preempted"


def test_the_two_gates_are_a_film_of_the_engine_of_a_notebook() -> None:
    player = watch_gates(Lab(5, "solution").play(two_gates(), TWO_GATES))
    assert not isinstance(player, Notice)
    said = described(player.pictures[20])
    assert [said[f"steps with gate {name}"] for name in ("compute", "seats", "memory")] == [
        "1 3-19 51 53-60",
        "none",
        "20-50 52",
    ]
    assert player.step == 20
    assert described(player.pictures[1])["tokens"] == "8,192 of 8,192, 4 decode"
    assert "188 of them a part of a prompt. 5 requests wait." in player.pictures[1].sentence


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
