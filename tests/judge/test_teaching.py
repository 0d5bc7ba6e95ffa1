"""The numbers in the teachers' guide."""

import re

import pytest

from classroom.judge.groups import TEST_GROUPS
from tests.course.checks.labs import LABS, sizes
from tests.course.test_handouts import CHECK, numbers_claimed
from tests.grading.checkout import PHASES

GUIDE = (LABS.parent / "docs" / "teaching.md").read_text(encoding="utf-8")


def course_minutes() -> int:
    """Return the minutes of all phases, to read and to write."""
    return sum(sum(sizes(phase)[1:]) for phase in PHASES)


def judge_points() -> list[int]:
    return [sum(group.points for group in TEST_GROUPS if group.phase == phase) for phase in PHASES]


@pytest.mark.parametrize("match", list(CHECK.finditer(GUIDE)), ids=lambda match: match[1])
def test_the_numbers_of_the_guide_are_right(match: re.Match[str]) -> None:
    assert eval(match[1], {"course_minutes": course_minutes, "judge_points": judge_points, "sum": sum}) is True
    assert all(re.search(rf"(?<!\d){number}(?!\d)", GUIDE[: match.start()]) for number in numbers_claimed(match[1]))


def test_the_guide_names_all_phases_and_files_that_exist() -> None:
    paths = re.findall(r"`((?:mini_vllm|course|classroom|tests|tools|labs)/[\w/]+\.(?:py|sh|md))`", GUIDE)
    assert len(paths) > 1
    assert [path for path in paths if not (LABS.parent / path).exists()] == []
