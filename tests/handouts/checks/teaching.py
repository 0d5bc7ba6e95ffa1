"""Functions for the checks in `docs/teaching.md`: the minutes of a class, the judge's points, the exams."""

from mini_vllm_labs.classroom.judge.groups import TEST_GROUPS
from tests.grading.checkout import PHASES
from tests.handouts.checks.labs import sizes
from tests.handouts.checks.readme import catalog
from tests.mutants.exam import record


def course_minutes() -> int:
    return sum(sum(sizes(phase)[1:]) for phase in PHASES)


def judge_points() -> list[int]:
    return [sum(group.points for group in TEST_GROUPS if group.phase == phase) for phase in PHASES]


def known() -> tuple[int, int]:
    return catalog()


def exam_questions() -> int:
    """Return how many of a phase's mistakes are tried; each yields at most one question."""
    return record.NUM_TRIED
