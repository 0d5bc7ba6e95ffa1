"""Points: all for the reference and for fair alternatives, fewer for mistakes and only in their own phase."""

import functools

import pytest

from classroom.judge.groups import TEST_GROUPS
from classroom.judge.jail import Jail
from classroom.judge.judge import Judge
from classroom.judge.results import SubmissionGrade
from classroom.judge.submission import Submission
from classroom.judge.summary import SubmissionSummary, summary_of
from course.grading.plan import load_plan
from tests.course.surface import starter_path
from tests.judge.__main__ import thinned
from tests.judge.files import fair_texts, mutant, solved
from tests.mutants.catalog import PHASES

SEED = "tests"
MISTAKES = [
    {1: "clamp forgets the budget", 3: "queue ignores the arrival time", 5: "ignores the threshold"},
    {1: "update frees in running order instead of step order", 4: "the hash forgets the parent"},
    {2: "removing a block that is not in the queue is ignored", 6: "positions count from the chunk"},
]


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(SEED, Jail(), per_group=2, seconds=10)


def points(grade: SubmissionGrade) -> list[float]:
    return [phase.points for phase in grade.phases]


def test_a_phase_is_worth_what_it_is_in_the_plan() -> None:
    for phase in load_plan():
        assert sum(group.points for group in TEST_GROUPS if group.phase == phase.number) == phase.points


def test_the_reference_gets_all_points_in_a_jail(jail: Jail) -> None:
    graded = Judge(SEED, jail, per_group=2, seconds=20).grade(solved())
    assert points(graded) == [phase.points for phase in load_plan()]
    assert (graded.together_status, graded.together_up_to) == ("pass", 5)


@pytest.mark.parametrize("mistakes", MISTAKES, ids=lambda mistakes: "-".join(map(str, mistakes)))
def test_a_mistake_costs_points_in_its_own_phase_only(judge: Judge, mistakes: dict[int, str]) -> None:
    texts = {f"phase{phase}": mutant(phase, name) for phase, name in mistakes.items()}
    graded = judge.grade(solved(*{*mistakes, 1, 2}, **texts))
    lost = {found.number: found.max_points - found.points for found in graded.phases if not found.error}
    assert {number for number, points in lost.items() if points} == set(mistakes)
    for number in mistakes:
        assert lost[number] < graded.phases[number - 1].max_points, "one mistake must not cost a whole phase"


FAIR = [(phase, name) for phase in PHASES for name in thinned(fair_texts(phase), 6)]  # all: python -m tests.judge


@functools.cache
def judge_of(phase: int) -> Judge:
    return Judge(SEED, Jail(), per_group=2, seconds=30, phases=[phase])


@pytest.mark.parametrize(("phase", "name"), FAIR)
def test_a_fair_alternative_gets_all_points(phase: int, name: str) -> None:
    (graded,) = judge_of(phase).grade(Submission(name, {phase: fair_texts(phase)[name].encode()})).phases
    failures = [group.first_failure for group in graded.groups if group.first_failure]
    assert (graded.points, failures) == (graded.max_points, [])


def test_the_same_seed_gives_the_same_report(judge: Judge) -> None:
    wrong = solved(2, 3, phase2=mutant(2, "append forgets to count"), phase3="x = ")
    again = Judge(SEED, Jail(), per_group=2, seconds=10)
    summaries: list[SubmissionSummary] = [summary_of(each.grade(wrong)) for each in (judge, again)]
    assert summaries[0] == summaries[1]
    assert str(summaries[0]["phases"][2]["error"]).startswith("The file cannot be loaded")


def test_other_seeds_give_other_situations() -> None:
    group = next(group for group in TEST_GROUPS if group.title == "shared blocks")
    one, two = (Judge(seed, Jail(), per_group=1, seconds=1).situation(group, 0) for seed in ("one", "two"))
    assert one.scenario != two.scenario


def test_untouched_starters_are_not_written() -> None:
    judge = Judge(SEED, Jail(), per_group=1, seconds=10)
    graded = judge.grade(Submission("new", {phase: starter_path(phase).read_bytes() for phase in (1, 2, 3, 4, 5)}))
    assert graded.points == 0
    assert not any(phase.is_written for phase in graded.phases)
    assert graded.together_status == "-"


def test_a_mistake_of_one_phase_shows_together(judge: Judge) -> None:
    graded = judge.grade(solved(1, 2, phase1=mutant(1, "clamp forgets the budget")))
    assert (graded.together_status, graded.together_up_to) == ("fail", 2)
    assert graded.phases[1].points == graded.phases[1].max_points
