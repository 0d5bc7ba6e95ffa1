"""The optional task's starter: the reference without function bodies, and tests that run if triton is installed."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mini_vllm_labs.runs.starter_status import touched_in
from tests.course.surface import ROOT, functions, parse, surface
from tests.edition.conftest import run

STARTER = ROOT / "labs" / "phase6_gpu_runner" / "starter_triton.py"
SOLUTION = ROOT / "solutions" / "phase6_triton_kernels.py"
TESTS = "labs/phase6_gpu_runner/optional_task6_8_triton.py"


def test_starter_and_solution_have_the_same_surface() -> None:
    starter, solution = surface(parse(STARTER).body), surface(parse(SOLUTION).body)
    assert len(starter) == 8  # three kernels, two functions, three constants
    assert starter == solution


def test_the_starter_is_untouched_and_names_its_task() -> None:
    assert touched_in(STARTER) == []
    for node in functions(parse(STARTER)):
        assert f'NotImplementedError("Phase 6, task 8: {node.name}")' in ast.unparse(node).replace("'", '"')


def graded(lineup: str, report: Path, tests: str = TESTS, checkout: Path = ROOT) -> list[ElementTree.Element]:
    """Run the tests in a separate process, because the interpreter is chosen when triton is imported."""
    done = run(checkout, "pytest", tests, "-q", "-p", "no:cacheprovider", f"--junitxml={report}", LAB_IMPL=lineup)
    assert report.exists(), done.stdout + done.stderr
    return list(ElementTree.parse(report).iter("testcase"))


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed (the extra 'triton', on Linux)")
def test_the_reference_passes(tmp_path: Path) -> None:
    cases = graded("solution", tmp_path / "report.xml")
    assert len(cases) > 15
    assert [case.get("name") for case in cases if len(case.findall("failure") + case.findall("error"))] == []
    assert [case.get("name") for case in cases if case.find("skipped") is not None] == []


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed (the extra 'triton', on Linux)")
def test_the_untouched_starter_fails_with_our_error_only(tmp_path: Path) -> None:
    failures = [case.find("failure") for case in graded("starter", tmp_path / "report.xml")]
    messages = ["passed" if failure is None else failure.get("message") or "" for failure in failures]
    assert [text for text in messages if not re.match("NotImplementedError: Phase 6, task 8: ", text)] == []


@pytest.mark.skipif(find_spec("triton") is not None, reason="triton is installed")
def test_without_triton_the_reason_is_printed(tmp_path: Path) -> None:
    (case,) = graded("starter", tmp_path / "report.xml")
    skipped = case.find("skipped")
    assert skipped is not None
    assert "triton is not installed" in (skipped.text or "") + (skipped.get("message") or "")
