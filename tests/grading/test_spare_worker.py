"""A waiting worker has imported the graded tests but no learner's file, and never grades with outdated code."""

import json
import subprocess
import sys
from pathlib import Path

from tests.grading.checkout import Checkout, solution, with_line

COLLECT = """
import json, sys, pytest
ended = pytest.main(["--collect-only", "-qq", "-p", "no:nbval", "labs"])
print()
print(json.dumps([name for name in sys.modules if name.startswith("labs.") and name.endswith(".starter")]))
sys.exit(ended)
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


BOTH = """
import json, sys, threading
from dataclasses import replace
from pathlib import Path
from mini_vllm_labs.grading.grader import grade_tests
from mini_vllm_labs.grading.plan import load_whole_plan
from mini_vllm_labs.grading.spare_worker import SpareWorker

phase, spare = load_whole_plan()[0], SpareWorker()
phase = replace(phase, tasks=phase.tasks[:1])
for text in json.load(sys.stdin):
    Path(phase.starter).write_text(text)
    grades = [grade_tests(phase, threading.Event(), spare=one) for one in (spare, None)]
    print(json.dumps([{t.id: [t.outcome, t.message] for task in one.tasks for t in task.tests} for one in grades]))
spare.close()
"""
CALLS_COUNTED = "import mini_vllm; mini_vllm.calls = getattr(mini_vllm, 'calls', 0) + 1"
LINES = {
    "wrong for some": "if budget < 5: return -1",
    "wrong after calls of other tests": f"{CALLS_COUNTED}\n    if mini_vllm.calls > 8: return -1",
    "exits as after a sent result": "if budget < 5: __import__('os')._exit(73)",
    "exits as after a failed test": "if budget < 5: __import__('os')._exit(74)",
    "dies": "if budget < 5: __import__('os').abort()",
    "raises SystemExit": "if budget < 5: raise SystemExit",
}


def test_tests_that_share_a_process_have_the_results_of_tests_alone(tmp_path: Path) -> None:
    student = Checkout(tmp_path)
    texts = [solution(1), *(with_line(solution(1), "clamp", line) for line in LINES.values())]
    command = [sys.executable, "-c", BOTH]
    done = subprocess.run(
        command, input=json.dumps(texts), cwd=student.folder, capture_output=True, text=True, check=True
    )
    found = dict(zip(["right", *LINES], map(json.loads, done.stdout.splitlines()), strict=True))
    for name, (together, alone) in found.items():
        assert together == alone, name
    assert {outcome for outcome, _ in found["right"][0].values()} == {"passed"}
    assert all("crashed" in {one for one, _ in found[name][0].values()} for name in ("dies", [*LINES][2], [*LINES][3]))


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
