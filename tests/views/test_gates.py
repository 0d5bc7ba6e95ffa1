"""The gates: what a picture says of a step is in the step's record, and each gate is named by its own rule."""

import pytest

from course.notebook import Lab, Notice, watch_gates
from course.traces.recording import Recording
from course.views.gates import gate_of, gates
from course.workloads.two_gates import TWO_GATES, two_gates
from tests.views.drawing import described, is_sound
from tests.views.runs import large, small


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
