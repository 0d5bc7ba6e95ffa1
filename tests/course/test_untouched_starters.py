"""A learner who has written nothing yet: no test passes, none crashes, and each names the phase to write."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]


def graded_cases(report: Path) -> list[ElementTree.Element]:
    """Run the graded tests on the untouched starters; electives that are not begun have to be named."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        *(str(folder.relative_to(ROOT)) for folder in sorted((ROOT / "labs").glob("phase*"))),
        "-q",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=environment | {"LAB_IMPL": "starter"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]
    return list(ElementTree.parse(report).iter("testcase"))


def complaint(case: ElementTree.Element, phase: str) -> str | None:
    """Return what is wrong with the outcome of one test, None if it is as it should be."""
    if case.find("error") is not None:
        return "an error outside the test"
    if case.find("skipped") is not None:
        return "skipped"
    failure = case.find("failure")
    if failure is None:
        return "passed, although nothing is written"
    message = failure.get("message") or ""
    if not re.match(rf"NotImplementedError: Phase {phase}, tasks? \d", message):
        return f"failed otherwise: {message[:200]}"
    return None


def test_every_graded_test_fails_and_names_a_task_of_its_own_phase(tmp_path: Path) -> None:
    complaints, num_tests = {}, Counter[str]()
    for case in graded_cases(tmp_path / "report.xml"):
        place = re.match(r"labs\.phase(\d+)_", case.get("classname") or "")
        assert place is not None, f"a test outside the phases: {case.attrib}"
        num_tests[place[1]] += 1
        if wrong := complaint(case, place[1]):
            complaints[f"{case.get('classname')}::{case.get('name')}"] = wrong
    assert complaints == {}
    assert set(num_tests) == set("12345678"), "a phase without graded tests"
