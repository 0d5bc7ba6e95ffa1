"""Determines, from the starters' text alone and without running them, which phases have been written."""

from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import ALL_NAMES, parse_lineup
from mini_vllm_labs.runs.starter_status import (
    starter_path,
    touched_functions,
    unwritten_tasks,
    written_lineup,
    written_phases,
)
from tests.course.surface import PHASES, solution_path

TASK = 'raise NotImplementedError("Phase 1, task 1: clamp")'


def write_starter(checkout: Path, phase: int, text: str) -> None:
    path = starter_path(phase, checkout)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for phase in PHASES:
        write_starter(tmp_path, phase, "def done():\n    return 1\n")
    return tmp_path


def test_the_starters_of_this_checkout_are_untouched() -> None:
    assert written_phases() == []
    assert not any(map(touched_functions, PHASES))
    assert unwritten_tasks(1) == [
        "Phase 1, task 1: clamp",
        "Phase 1, tasks 2 and 3: schedule_step",
        "Phase 1, task 4: update_from_output",
    ]
    assert unwritten_tasks(4)[0].startswith("Phase 4, task 1")


@pytest.mark.parametrize("phase", PHASES)
def test_a_starter_with_the_reference_in_it_is_written(checkout: Path, phase: int) -> None:
    solution = solution_path(phase)
    write_starter(checkout, phase, solution.read_text(encoding="utf-8"))
    assert unwritten_tasks(phase, checkout) == []
    assert touched_functions(phase, checkout) != []


@pytest.mark.parametrize("phase", range(1, 7))
def test_a_phase_with_an_unwritten_task_is_not_written(checkout: Path, phase: int) -> None:
    assert written_phases(checkout) == [1, 2, 3, 4, 5, 6]
    assert written_lineup(checkout) == parse_lineup(f"starter:1-{len(ALL_NAMES)}")
    write_starter(checkout, phase, f'def f():\n    raise NotImplementedError("Phase {phase}, task 2: f")\n')
    assert written_phases(checkout) == [number for number in range(1, 7) if number != phase]
    assert unwritten_tasks(phase, checkout) == [f"Phase {phase}, task 2: f"]


def test_written_phases_run_as_far_as_they_work_together(checkout: Path) -> None:
    def unwrite(phase: int) -> str:
        write_starter(checkout, phase, f'def f():\n    raise NotImplementedError("Phase {phase}, task 1: f")\n')
        return str(written_lineup(checkout))

    assert [unwrite(phase) for phase in range(7, 15)] == [
        *(f"starter:1-6,starter:{phase}-14" for phase in (8, 9, 10, 11, 12, 13)),
        "starter:1-6,starter:14",
        "starter",
    ]
    assert unwrite(3) == "starter:1-2,starter:4-6"
    assert unwrite(2) == "starter:1,starter:5-6", "phase 4 shares the blocks of phase 2"
    assert unwrite(1) == "None"


@pytest.mark.parametrize(
    "body",
    [
        TASK,
        f'"""Doc."""\n    {TASK}',
        f"x = 1\n    {TASK}",
        f"if x:\n        return 1\n    {TASK}",
        f"if x:\n        {TASK}\n    return 1",
        f"for x in []:\n        return 1\n    {TASK}",
        f"try:\n        return 1\n    except ValueError:\n        {TASK}",
        f"match x:\n        case 1:\n            {TASK}",
        f"while x:\n        break\n    else:\n        {TASK}",
        f"def inner():\n        {TASK}\n    return inner()",
    ],
)
def test_a_function_that_can_still_raise_is_unwritten(checkout: Path, body: str) -> None:
    write_starter(checkout, 1, f"class A:\n  def f(self, x):\n    {body}\n")
    assert unwritten_tasks(1, checkout) == ["Phase 1, task 1: clamp"]


@pytest.mark.parametrize(
    "body",
    [
        f"return 1\n    {TASK}",
        f"if x:\n        return 1\n    else:\n        raise ValueError\n    {TASK}",
        f"with x:\n        return 1\n    {TASK}",
        f"# {TASK}\n    return 1",
        "raise NotImplementedError",
        "raise NotImplementedError('not one of ours')",
    ],
)
def test_code_after_a_return_or_not_ours_does_not_count(checkout: Path, body: str) -> None:
    write_starter(checkout, 1, f"def f(x):\n    {body}\n")
    assert unwritten_tasks(1, checkout) == []
    assert touched_functions(1, checkout) == ["f"]


def test_a_file_that_python_cannot_read_is_named_with_its_line(checkout: Path) -> None:
    write_starter(checkout, 3, "x = 1\ndef f(:\n")
    assert 3 not in written_phases(checkout)
    (problem,) = unwritten_tasks(3, checkout)
    assert "labs/phase3_preemption/starter.py, line 2" in problem
    starter_path(4, checkout).unlink()
    (problem,) = unwritten_tasks(4, checkout)
    assert "cannot be read" in problem


@pytest.mark.parametrize("prefix", ["\ufeff", "# line\r\n"])
def test_byte_order_marks_and_windows_line_ends_are_fine(checkout: Path, prefix: str) -> None:
    path = starter_path(1, checkout)
    path.write_bytes((prefix + f"def f():\r\n    {TASK}\r\n").encode())
    assert unwritten_tasks(1, checkout) == ["Phase 1, task 1: clamp"]
