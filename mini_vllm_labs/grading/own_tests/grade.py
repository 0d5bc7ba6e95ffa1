"""The grade of a learner's test file: points for caught mistakes, unless it rejects correct code."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from mini_vllm.assembly.parts import solutions_exist
from mini_vllm_labs.fresh.process import receive
from mini_vllm_labs.grading.worker import GradingWorker
from mini_vllm_labs.runs.sandbox.channel import ChannelError
from mini_vllm_labs.runs.sandbox.imports import imported_names
from mini_vllm_labs.runs.sandbox.imports import is_refused as refused_in_starters
from mini_vllm_labs.runs.sandbox.source_text import complaint_about_content
from mini_vllm_labs.runs.starter_status import lab_folder, unwritten_tasks

POINTS = 10
VERSION = 1
SECONDS = 300.0
READERS = ("inspect", "dis", "marshal", "subprocess", "multiprocessing", "socket", "ctypes")


@dataclass(frozen=True)
class TestsGrade:
    """The result for a test file: the mistakes caught for each rule, and why any correct solution was rejected."""

    __test__ = False  # pytest does not collect classes with this name

    phase: int
    tests: int
    rules: Mapping[str, tuple[int, int]]
    fair: Mapping[str, str]
    prints: bool = False
    sha256: str = ""

    @property
    def num_caught(self) -> int:
        return sum(caught for caught, _ in self.rules.values())

    @property
    def num_mistakes(self) -> int:
        return sum(total for _, total in self.rules.values())

    @property
    def num_accepted(self) -> int:
        return sum(not why for why in self.fair.values())

    @property
    def points(self) -> int:
        """Return ten points times the fraction of mistakes caught, times the fraction of correct solutions accepted."""
        return round(POINTS * self.num_caught / self.num_mistakes * self.num_accepted / len(self.fair))

    @property
    def untested(self) -> list[str]:
        """The rules for which no mistake was caught."""
        return [rule for rule, (caught, _) in self.rules.items() if not caught]


def graded(path: Path, phase: int) -> TestsGrade:
    """Grade a test file. Raises `ValueError` with the reason if it cannot be graded."""
    if not hasattr(os, "fork"):
        raise ValueError(
            "grade-tests forks a process for each mistake, which this operating system does not support: use Linux or "
            "macOS"
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if complaint := complaint_about_content(content) or complaint_about_imports(content, phase):
        raise ValueError(f"{path}: {complaint}")
    if not solutions_exist() and (unwritten := unwritten_tasks(phase)):
        raise ValueError(f"your tests can be graded once your phase passes: {unwritten[0]} is not written yet")
    module = f"solutions.{lab_folder(phase)}" if solutions_exist() else f"labs.{lab_folder(phase)}.starter"
    order = {"phase": phase, "module": module, "source": content.decode("utf-8-sig"), "at_once": os.cpu_count() or 1}
    with GradingWorker(["-m", "mini_vllm_labs.grading.own_tests"]) as worker:
        worker.deadline = time.monotonic() + SECONDS
        try:
            worker.send(order)
            found = receive(worker)
        except ChannelError as error:
            raise ValueError(
                f"{path}: the process that ran the tests exited ({error}): {worker.output[-300:]}"
            ) from None
    if "problem" in found:
        raise ValueError(f"{path}: {found['problem']}")
    rules = dict[str, tuple[int, int]]()
    for rule, is_caught in found["mistakes"]:
        caught, total = rules.get(rule, (0, 0))
        rules[rule] = caught + is_caught, total + 1
    digest = sha256(content).hexdigest()
    return TestsGrade(phase, found["tests"], rules, dict(found["fair"]), found["prints"], digest)


def complaint_about_imports(content: bytes, phase: int) -> str:
    """Return a sentence about the tests' first forbidden import, or an empty string."""
    mine = f"labs.{lab_folder(phase)}.starter"
    for line, name in sorted(imported_names(content)):
        top = name.partition(".")[0]
        if top in READERS or refused_in_starters(name) or (top == "labs" and f"{name}.".find(f"{mine}.") != 0):
            return (
                f"line {line} imports {name}: tests call the functions of `phase{phase}`, and import only {mine}, "
                "mini_vllm, libraries, and nothing that reads code or starts processes"
            )
    return ""


def added_to(path: Path, grade: TestsGrade) -> None:
    """Write a grade into a learner's result file, alongside those of other phases. Raises `ValueError`."""
    phases: dict[str, Any] = read_points(path) if path.exists() else {}
    phases[str(grade.phase)] = {
        "points": grade.points,
        "caught": [grade.num_caught, grade.num_mistakes],
        "accepted": [grade.num_accepted, len(grade.fair)],
        "untested": grade.untested,
        "sha256": grade.sha256,
    }
    text = json.dumps({"version": VERSION, "own tests": phases}, indent=1) + "\n"
    path.write_text(text, encoding="utf-8")


def read_points(path: Path) -> dict[str, dict[str, Any]]:
    """Return the grades in a result file, keyed by phase. Raises `ValueError` if the file is in a different format."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        phases: dict[str, dict[str, Any]] = found["own tests"]
        if found["version"] != VERSION or any(not 0 <= one["points"] <= POINTS for one in phases.values()):
            raise ValueError("the file was written by a different version")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not a result of `mini-vllm grade-tests`: {error}") from None
    return phases
