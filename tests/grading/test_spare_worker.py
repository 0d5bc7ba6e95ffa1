"""A worker that waits has imported the graded tests and no learner's file, and grades with no outdated code."""

import json
import subprocess
import sys
from pathlib import Path

from tests.grading.checkout import Checkout

COLLECT = """
import json, sys, pytest
pytest.main(["--collect-only", "-qq", "-p", "no:nbval", "labs"])
print()
print(json.dumps([name for name in sys.modules if name.startswith("labs.") and name.endswith(".starter")]))
"""
GRADE = """
import sys, threading, time
from pathlib import Path
from mini_vllm_labs.grading.grader import grade_tests
from mini_vllm_labs.grading.spare_worker import SpareWorker

spare = SpareWorker()
spare.prepare(1)
pid, spent = spare.waiting_pid, None
while (now := Path(f"/proc/{pid}/stat").read_text().split()[13:15]) != spent or now == ["0", "0"]:
    spent = now  # until it has imported everything and waits
    time.sleep(2)
if sys.argv[1:]:
    Path(sys.argv[1]).write_text(sys.argv[2])
print(spare.waiting_pid == pid and spare._waiting[1].is_running)
grade = grade_tests(spare.phases[1], threading.Event(), spare=spare)
print(grade.alone, grade.error)
spare.close()
"""


def test_collecting_graded_tests_imports_no_starter() -> None:
    found = subprocess.run([sys.executable, "-c", COLLECT], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout.splitlines()[-1]) == []


def printed(student: Checkout, *changed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", GRADE, *changed], cwd=student.folder, capture_output=True, text=True, check=True
    )
    return done.stdout.split("\n")[:2]


def test_a_worker_that_waited_grades_the_file_as_it_is_now(tmp_path: Path) -> None:
    student = Checkout(tmp_path)
    student.solve(1)
    assert printed(student) == ["True", "passed "]
    right = student.starter(1).read_text(encoding="utf-8")
    assert printed(student, str(student.starter(1)), right.replace("max(0, ", "max(-1, ")) == ["True", "failed "]


def test_a_change_to_the_engine_counts(tmp_path: Path) -> None:
    student = Checkout(tmp_path)
    student.solve(1)
    assert printed(student, "mini_vllm/core/stopping.py", "raise ValueError")[1].startswith("error ")
