"""Two lanes of time: the order of the records, no overlap of one side with itself, and what can be hidden."""

import copy
from dataclasses import replace
from itertools import pairwise

import pytest

from course.traces.recording import Recording
from course.views.lanes import lanes, lanes_panel
from course.views.lanes.schedule import APPLY, PLAN, TEXT, Schedule, Task, schedule_of
from tests.views.drawing import is_sound
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


def wasted() -> Recording:
    """The run planned ahead, whose last step turns out to be computed in vain."""
    steps = copy.deepcopy(list(RUNS["ahead"].steps))
    for record in steps[-2:]:
        record["finished"] = []
    last = next(record for record in reversed(steps) if record["scheduled"])
    last["finished"] = [(share["id"], "stop", None) for share in last["scheduled"]]
    last["sampled"] = {}
    return replace(RUNS["ahead"], steps=steps)


def test_a_step_in_vain_is_marked() -> None:
    assert sum(task.in_vain for task in schedule_of(wasted(), 4, 8).runner) == 1
    assert "in vain" not in lanes({"ahead": RUNS["ahead"]}).text_alternative


@pytest.mark.parametrize("width", [300, 460, 720, 1000, 1400])
def test_every_width_is_drawn_within_it(width: float) -> None:
    assert is_sound(lanes(RUNS, width=width))
    assert lanes(RUNS, width=width).width <= max(460, width)


def test_the_sentence_follows_the_knobs() -> None:
    panel = lanes_panel(RUNS)
    assert "all of it is hidden" in panel.picture().sentence
    panel.set(plan_ms=12.0, compute_ms=5.0)
    assert "7 ms longer than the runner" in panel.picture().sentence
    assert "waits for the engine in each step" in lanes({"in turn": RUNS["in turn"]}).sentence
    panel.set(plan_ms=0.5)
    assert "all of it is hidden" in panel.picture().sentence


def test_times_and_runs_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        lanes({})
    with pytest.raises(ValueError, match="above 0"):
        lanes(RUNS, 0, 8)
