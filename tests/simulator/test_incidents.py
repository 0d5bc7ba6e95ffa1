"""The incident game: every answer comes from runs, whatever the seed, and guessing does not pay."""

from dataclasses import replace

import pytest

from mini_vllm import parse_lineup
from mini_vllm_labs.simulation.incidents import POINTS, Runs, incidents

LINEUP = replace(parse_lineup("solution:1-5"), runner="absent")


@pytest.fixture(scope="module", params=[0, 7])
def played(request: pytest.FixtureRequest) -> list[Runs]:
    return [incident.run(LINEUP) for incident in incidents(request.param)]


def test_one_knob_is_clearly_right_in_each(played: list[Runs]) -> None:
    for runs in played:
        points = [runs.points(knob) for knob in range(4)]
        figures = [runs.figure.of(after) for after in runs.after]
        assert points[runs.best] == POINTS, runs.incident.title
        assert sorted(points)[-2] <= 7, runs.incident.title
        assert figures[runs.best] == min(figures) < 0.7 * runs.figure.of(runs.before), runs.incident.title


def test_pages_and_lessons_have_the_figures_of_the_runs(played: list[Runs]) -> None:
    for runs in played:
        before, best = runs.figure.shown(runs.before), runs.figure.shown(runs.after[runs.best])
        assert f"{runs.incident.paged} is {before}." in runs.symptom()
        assert before in runs.figures().values()
        assert f" {before} to {best}" in runs.lesson()
        assert " Before that " in runs.lesson()
        assert "{" not in runs.lesson()


def test_the_lesson_names_what_requests_waited_for(played: list[Runs]) -> None:
    [seats] = [one for one in played if one.incident.title == "The queue at an idle GPU"]
    assert "(seats 100%)." in seats.lesson()
    [idle] = [one for one in played if one.incident.title == "Slow with no load"]
    assert idle.lesson().endswith(" Before that no request waited.")


def test_the_same_number_each_time_earns_little(played: list[Runs]) -> None:
    assert len(played) == 10
    for knob in range(4):
        assert sum(runs.points(knob) for runs in played) < 60


def test_points_are_the_share_of_the_best_improvement(played: list[Runs]) -> None:
    [runs] = [one for one in played if one.incident.title == "The same work twice"]
    most, least = runs.before.num_preemptions, runs.after[runs.best].num_preemptions
    half = replace(runs.before, num_preemptions=(most + least) // 2)
    worse = replace(runs.before, num_preemptions=2 * most)
    partly = Runs(runs.incident, runs.before, [half, runs.after[runs.best], worse, runs.before], {})
    assert [partly.points(knob) for knob in range(4)] == [5, 10, 0, 0]
    nothing = Runs(runs.incident, runs.before, [runs.before] * 4, {})
    assert [nothing.points(knob) for knob in range(4)] == [0] * 4, "no knob helps: none earns points"


def test_a_seed_draws_order_knobs_and_requests() -> None:
    first, other = incidents(1), incidents(2)
    assert first == incidents(1)
    assert [one.title for one in first] != [one.title for one in other]
    assert sorted(one.title for one in first) == sorted(one.title for one in other)
    title = first[0].title
    [same] = [one for one in other if one.title == title]
    assert same.experiment.seed == 2
    assert sorted(same.knobs) == sorted(first[0].knobs)
    with pytest.raises(ValueError, match="seed must be an integer of at least 0, got -1"):
        incidents(-1)


def test_another_scheduler_gets_other_answers() -> None:
    [caching] = [one for one in incidents(0) if one.title == "The same passages again"]
    without = replace(parse_lineup("solution:1-3,solution:5"), runner="absent")
    runs = caching.run(without)
    assert runs.points(caching.knobs.index("enable_prefix_caching=on")) == 0, "this lineup has no cache to turn on"
