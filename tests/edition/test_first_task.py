"""Learners who read from the start soon reach the first line of code; hints appear only on request."""

import re
import shutil
from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.student_edition.edition import long_lines, secret_lines
from mini_vllm_labs.cli.hint import all_hints, readable
from mini_vllm_labs.grading.plan import load_whole_plan
from mini_vllm_labs.runs.starter_status import starter_path
from tests.course.surface import solution_path
from tests.edition.conftest import run

WAY = (
    ("README.md", "](labs/README.md)"),
    ("labs/README.md", "](phase1_scheduler_step/README.md)"),
    ("labs/phase1_scheduler_step/README.md", "-m task1_1"),
    ("labs/phase1_scheduler_step/starter.py", "raise NotImplementedError"),
)
"""What is read before the first task, and up to which words."""
MAX_WORDS = 1_500
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def words_before(path: Path, mark: str) -> int:
    """Return how many words precede a mark in a file. Raises `ValueError` if the mark is missing."""
    before, found, _ = COMMENT.sub("", path.read_text(encoding="utf-8")).partition(mark)
    if not found:
        raise ValueError(f"{path} leads nowhere: {mark}")
    return len(before.split())


def test_the_first_task_is_met_within_1500_words(student: Path) -> None:
    for edition in (CHECKOUT, student):
        read = {name: words_before(edition / name, mark) for name, mark in WAY}
        assert sum(read.values()) <= MAX_WORDS, read


def test_every_task_has_hints_and_every_hint_a_text() -> None:
    tasks = {f"{phase.number}.{task.number}" for phase in load_whole_plan() for task in phase.tasks}
    hints = all_hints()
    assert tasks - set(hints) == set()
    assert all(text and "<!--" not in text for steps in hints.values() for _, text in steps)


def test_no_file_that_is_read_on_the_way_has_a_hint_in_it(student: Path) -> None:
    """No text contains a sentence from a recipe, not even inside `details`."""
    lines = {line for steps in all_hints().values() for _, text in steps for line in text.splitlines()}
    long = {line for line in lines if len(line.split()) > 8}
    assert len(long) > 100, "the search finds nothing any more"
    for path in (*student.rglob("*.md"), *student.rglob("*.py"), *student.rglob("*.rot13")):
        text = path.read_text(encoding="utf-8")
        assert "<summary>Hint" not in text, path
        assert not {line for line in long if line in text}, path


def test_a_hint_holds_no_line_of_the_solution() -> None:
    secret = secret_lines(CHECKOUT)
    hints = {path: set(long_lines(readable(path))) for path in CHECKOUT.glob("labs/*/hints.rot13")}
    assert len(hints) > 10, "the search finds nothing any more"
    assert all(hints.values()), "a hint has no long line"
    assert {path for path, lines in hints.items() if secret & lines} == set()


def test_hints_come_one_at_a_time(learner: Path) -> None:
    first, second, third = (run(learner, "mini_vllm_labs.cli", "hint", "1.1").stdout for _ in range(3))
    assert "hint 1 of 2: the odd one out" in first
    assert "the recipe" not in first
    assert "1 more: mini-vllm hint 1.1" in first
    assert "hint 2 of 2: the recipe" in second
    assert "the odd one out" not in second
    assert "the odd one out" in third
    assert "That was the last one" in third
    assert "hint 1 of 4" in run(learner, "mini_vllm_labs.cli", "hint", "1.2").stdout
    again = run(learner, "mini_vllm_labs.cli", "hint", "1.2", "--again").stdout
    assert "hint 1 of 4" in again
    assert "hint 2 of 4" not in again


@pytest.mark.parametrize("task", ["1.9", "clamp", ""])
def test_a_task_without_hints_is_named(student: Path, task: str) -> None:
    done = run(student, "mini_vllm_labs.cli", "hint", task)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"hint {task}: hints exist only for the tasks 1.1, 1.2," in done.stderr


def test_a_task_that_is_done_names_the_next_one(learner: Path) -> None:
    shutil.copy(solution_path(1), starter_path(1, learner))
    command = ("pytest", "-q", "-p", "no:cacheprovider", "labs/phase1_scheduler_step", "-m")
    assert "next: task 1.2 (labs/phase1_scheduler_step/README.md)" in run(learner, *command, "task1_1").stdout
    assert "next: task 1.5 (labs/phase1_scheduler_step/README.md)" in run(learner, *command, "task1_4").stdout
    assert "which runs phase 1 in whole engines too" in run(learner, *command, "task1_5").stdout
    assert "is done" not in run(learner, *command, "task1_1", "-k", "largest").stdout, (
        "a part of a task is not the task"
    )
