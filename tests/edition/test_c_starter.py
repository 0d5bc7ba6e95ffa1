"""The optional task in C: the reference without its body, and tests that run if there is a compiler.

The first tests of `lab.py` check that the reference passes.
"""

import re
import shutil
from pathlib import Path

from mini_vllm.runner.c_starter import unwritten_task
from mini_vllm_labs.runs.starter_status import starter_path
from tests.compiler import needs_compiler
from tests.course.surface import ROOT, solution_path
from tests.edition.test_triton_starter import graded

STARTER = ROOT / "labs" / "phase6_gpu_runner" / "starter_decode_attention.c"
SOLUTION = ROOT / "solutions" / "phase6_decode_attention.c"
TESTS = "labs/phase6_gpu_runner/optional_task6_9_c.py"
SIGNATURE = re.compile(r"^void paged_decode_attention\([^)]+\)", re.MULTILINE)


def test_starter_solution_and_header_have_the_same_signature() -> None:
    header = ROOT / "mini_vllm" / "runner" / "decode_attention.h"
    found = {match.group() for path in (STARTER, SOLUTION, header) if (match := SIGNATURE.search(path.read_text()))}
    assert len(found) == 1


def test_the_starter_is_untouched_and_names_its_task() -> None:
    assert unwritten_task(STARTER.read_text()) == "Phase 6, task 9: paged_decode_attention"
    assert unwritten_task(SOLUTION.read_text()) is None


@needs_compiler
def test_the_untouched_starter_fails_with_our_error_only(tmp_path: Path) -> None:
    failures = [case.find("failure") for case in graded("starter", tmp_path / "report.xml", TESTS)]
    assert len(failures) > 25
    messages = ["passed" if failure is None else failure.get("message") or "" for failure in failures]
    assert [text for text in messages if not text.startswith("NotImplementedError: Phase 6, task 9: ")] == []


@needs_compiler
def test_a_student_edition_can_grade_it(student: Path, tmp_path: Path) -> None:
    """A student edition has no reference whose functions the tests could use alongside yours."""
    learner = shutil.copytree(student, tmp_path / "learner")
    shutil.copy(SOLUTION, learner / STARTER.relative_to(ROOT))
    shutil.copy(solution_path(6), starter_path(6, learner))
    cases = graded("starter", tmp_path / "report.xml", TESTS, learner)
    assert len(cases) > 25
    assert [case.get("name") for case in cases if len(list(case))] == []
