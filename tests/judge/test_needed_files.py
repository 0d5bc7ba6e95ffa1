"""Tests which parts of the engine a phase's jail contains, and that `mini-vllm grade` knows them."""

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.judge.needed_files import modules_text, reference_path
from mini_vllm_labs.grading.starter_file import JAIL_MODULES, modules_without_points
from mini_vllm_labs.runs.starter_status import LABS, lab_folder


def test_grade_knows_the_modules_in_the_jails() -> None:
    made_by = "python -m mini_vllm_labs.classroom.judge.needed_files"
    assert JAIL_MODULES.read_text(encoding="utf-8") == modules_text(), f"run {made_by}"


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        ("import mini_vllm.engine.errors", "mini_vllm.engine.errors"),
        ("from mini_vllm.core import scheduler", "mini_vllm.core.scheduler"),
        ("from mini_vllm.core.step import SchedulerOutput, no_module", ""),
        ("from mini_vllm.core import cdiv", ""),
        ("import numpy, torch", ""),
        ("def broken(", ""),
    ],
)
def test_grade_names_imports_that_the_jail_lacks(line: str, lacks: str) -> None:
    told = modules_without_points(line.encode(), 1)
    assert told.startswith(f"Your file imports {lacks} (line 1).") if lacks else not told


def test_no_starter_and_no_reference_imports_what_its_jail_lacks() -> None:
    for number in LABS:
        for path in (CHECKOUT / "labs" / lab_folder(number) / "starter.py", reference_path(number)):
            assert not modules_without_points(path.read_bytes(), number), path
