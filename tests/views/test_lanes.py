"""Two lanes of time: the order of the records, no overlap of one side with itself, and what can be hidden."""

import copy
from dataclasses import replace
from itertools import pairwise

import pytest

from course.views.lanes import lanes, lanes_panel
from course.views.lanes.schedule import APPLY, PLAN, TEXT, Schedule, Task, schedule_of
from tests.views.drawing import described, is_sound, tooltips, tree
from tests.views.runs import ahead

RUNS = {"in turn": ahead(0), "ahead": ahead(0, asynchronous=True)}
NUM_TURNS = len(RUNS["in turn"].steps)


def ends(tasks: list[Task]) -> dict[tuple[str, int], tuple[float, float]]:
    return {(task.kind, task.step): (task.start, task.end) for task in tasks}


def of(name: str, plan_ms: float, compute_ms: float) -> Schedule:
    return schedule_of(RUNS[name], plan_ms, compute_ms)


@pytest.mark.parametrize("times", [(1, 9), (4, 8), (8, 8), (12, 5)])
@pytest.mark.parametrize("name", RUNS)
def test_each_side_does_one_thing_at_a_time_and_in_the_order_of_the_records(
    name: str, times: tuple[float, float]
) -> None:
    schedule = of(name, *times)
    for tasks in (schedule.engine, schedule.runner):
        assert all(one.end <= two.start for one, two in pairwise(tasks))
    engine, runner = ends(list(schedule.engine)), ends(list(schedule.runner))
    for record in RUNS[name].steps:
        step = record["step"]
        if record["scheduled"]:
            start, end = runner["compute", step]
            assert engine[PLAN, step][1] <= start
            assert end <= engine[APPLY, step][0] < engine[TEXT, step][0]
    order = [(task.kind, task.step) for task in schedule.engine if task.kind != TEXT]
    expected: list[tuple[str, int | None]] = []
    for record in RUNS[name].steps:
        expected.append((PLAN, record["step"]))
        expected += [(APPLY, record["update_of"])] * (record["update_of"] is not None)
    assert order == expected


def test_in_turn_every_part_is_waited_for() -> None:
    for plan_ms, compute_ms in ((4, 8), (12, 5)):
        schedule = of("in turn", plan_ms, compute_ms)
        assert schedule.total == NUM_TURNS * (plan_ms + compute_ms)
        assert schedule.most_in_flight == 1
        assert schedule.idle_share == pytest.approx(plan_ms / (plan_ms + compute_ms))


def test_ahead_the_longer_side_decides() -> None:
    hidden, visible = of("ahead", 4, 8), of("ahead", 12, 5)
    assert hidden.total == NUM_TURNS * 8 + 4, "the first plan and the last update have nothing to hide behind"
    assert [start for start, _ in hidden.idle] == [0.0, hidden.total - 2], "the runner never waits in between"
    assert visible.total == pytest.approx(NUM_TURNS * 12 + 6), "and one plan of a step that is empty"
    assert len(visible.idle) > NUM_TURNS // 2
    assert hidden.most_in_flight == visible.most_in_flight == 2


def test_the_drawing_has_all_tasks_that_the_text_names() -> None:
    picture = lanes(RUNS, 4, 8)
    assert is_sound(picture)
    assert picture.height <= 720
    facts = described(picture)
    shown = {str(part.get("data-task")) for part in tree(picture).iter() if part.get("data-task")}
    for name in RUNS:
        assert facts[f"{name}, engine"].startswith("plan 0 0-2")
    assert {"plan:0", "compute:0", "apply:0", "text:0", "compute:1"} <= shown
    assert "compute step 1: 14 ms to 22 ms" in tooltips(tree(picture)), "in turn: behind plan 1"
    assert "compute step 1: 10 ms to 18 ms" in tooltips(tree(picture)), "ahead: right behind step 0"
    assert "simulated" in picture.sentence


def test_a_step_in_vain_is_marked_in_drawing_and_text() -> None:
    recording = RUNS["ahead"]
    steps = copy.deepcopy(list(recording.steps))
    for record in steps[-2:]:
        record["finished"] = []
    last = next(record for record in reversed(steps) if record["scheduled"])
    last["finished"] = [(share["id"], "stop", None) for share in last["scheduled"]]
    last["sampled"] = {}
    wasted = replace(recording, steps=steps)
    assert [task.step for task in schedule_of(wasted, 4, 8).runner if task.in_vain] == [last["step"]]
    picture = lanes({"ahead": wasted}, 4, 8, width=1000)
    assert picture.text_alternative.count("in vain") == 1
    assert sum("mv-in-vain" in str(part.get("class")) for part in tree(picture).iter()) == 1
    assert "in vain" not in lanes({"ahead": recording}).text_alternative


def test_the_sentence_follows_the_knobs() -> None:
    panel = lanes_panel(RUNS)
    assert "all of it is hidden" in panel.picture().sentence
    panel.set(plan_ms=12.0, compute_ms=5.0)
    assert "7 ms longer than the runner" in panel.picture().sentence
    assert "waits for the engine in each step" in lanes({"in turn": RUNS["in turn"]}).sentence
    panel.set(plan_ms=0.5)
    assert "all of it is hidden" in panel.picture().sentence


@pytest.mark.parametrize("width", [300, 460, 720, 1000, 1400])
def test_every_width_is_drawn_within_it(width: float) -> None:
    picture = lanes(RUNS, width=width)
    assert picture.width <= max(460, width)
    for part in tree(picture).iter():
        right = float(part.get("x") or 0) + float(part.get("width") or 0)
        assert right <= picture.width + 1


def test_times_and_runs_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        lanes({})
    with pytest.raises(ValueError, match="above 0"):
        lanes(RUNS, 0, 8)
