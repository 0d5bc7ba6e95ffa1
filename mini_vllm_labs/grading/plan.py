"""The graded tests and their points, by phase and task.

`plan.json` is generated from the reference (`python -m mini_vllm_labs.grading.plan`), so that a learner's code cannot
change which tests count.
"""

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mini_vllm.assembly.lineup import ALL_NAMES, CHECKOUT, PHASE_NAMES
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.environment import COLLECT
from mini_vllm_labs.grading.starter_file import sha256
from mini_vllm_labs.runs.sandbox import IN_BROWSER
from mini_vllm_labs.runs.starter_status import LABS, lab_folder, phase_in

if TYPE_CHECKING:
    import pytest

PLAN_FILE = Path(__file__).with_name("plan.json")
POINTS_PER_TASK = 10
DUNDERS = ("__init__", "__len__", "__iter__")  # part of a class's public interface


@dataclass(frozen=True)
class PlannedTask:
    """One task: its number within the phase, its points, and its tests as pytest ids without the folder."""

    number: int
    points: int
    tests: list[str]


@dataclass(frozen=True)
class PlannedPhase:
    """One phase. `names` are the public functions, classes and methods with their parameters.

    `untouched_sha256` is the hash of the untouched starter.
    """

    number: int
    folder: str
    tasks: list[PlannedTask]
    names: dict[str, str]
    untouched_sha256: str

    @property
    def name(self) -> str:
        return ALL_NAMES[self.number - 1]

    @property
    def is_elective(self) -> bool:
        return self.number > len(PHASE_NAMES)

    @property
    def points(self) -> int:
        return sum(task.points for task in self.tasks)

    @property
    def tests(self) -> list[str]:
        return [test for task in self.tasks for test in task.tests]

    @property
    def test_files(self) -> list[str]:
        """Paths of the test files, relative to the checkout."""
        return [f"{self.folder}/{file}" for file in dict.fromkeys(test.partition("::")[0] for test in self.tests)]

    @property
    def module(self) -> str:
        return f"{self.folder.replace('/', '.')}.starter"

    @property
    def starter(self) -> str:
        """Path of the learner's file, relative to the checkout."""
        return f"{self.folder}/starter.py"


def task_command(phase: PlannedPhase, task: PlannedTask) -> str:
    """Return the command that tests one task of the learner's file; in a browser, a line for a notebook cell."""
    if IN_BROWSER:
        return cell_command(phase.number, task.number)
    return f"{impl_prefix()}pytest {phase.folder} -m task{phase.number}_{task.number}"


def cell_command(phase: int, task: int) -> str:
    """Return a line for a notebook cell that runs the tests of a task."""
    return f"Lab({phase}).test({task})"


def impl_prefix() -> str:
    """Return the prefix that makes pytest grade the learner's file, or an empty string if that is the default."""
    return "LAB_IMPL=starter " if solutions_exist() else ""


def load_plan() -> list[PlannedPhase]:
    """Return the plan of the course: phases 1 to 6."""
    return [phase for phase in load_whole_plan() if not phase.is_elective]


def load_whole_plan() -> list[PlannedPhase]:
    phases = json.loads(PLAN_FILE.read_text(encoding="utf-8"))["phases"]
    return [PlannedPhase(**(phase | {"tasks": [PlannedTask(**task) for task in phase["tasks"]]})) for phase in phases]


def make_plan() -> list[PlannedPhase]:
    """Collect the graded tests with the reference. Raises `ValueError` unless each test belongs to one task."""
    if not solutions_exist():
        raise ValueError("making the plan needs the reference solutions, which this checkout does not contain")
    tests: dict[tuple[str, int], list[str]] = defaultdict(list)
    for test_id, markers in collect().items():
        folder, _, test = test_id.partition("/test_")
        tasks = [re.fullmatch(r"task(\d+)_(\d+)", marker) for marker in markers if marker.startswith("task")]
        if len(tasks) != 1 or tasks[0] is None or int(tasks[0][1]) != phase_in(folder.removeprefix("labs/")):
            raise ValueError(f"{test_id} must have the marker of exactly one task of its phase, but it has {markers}")
        tests[folder, int(tasks[0][2])].append(f"test_{test}")
    phases = []
    for number in LABS:
        folder = f"labs/{lab_folder(number)}"
        mine = sorted(task for place, task in tests if place == folder)
        planned = [PlannedTask(task, POINTS_PER_TASK, tests[folder, task]) for task in mine]
        untouched = sha256(CHECKOUT / folder / "starter.py")
        phases.append(PlannedPhase(number, folder, planned, public_names(folder), untouched))
    return phases


def collect() -> dict[str, list[str]]:
    """Return every test under `labs/` with the names of its markers."""
    # Options in the caller's environment would change what is collected.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "tests.json"
        command = [sys.executable, "-m", "pytest", "labs", "--collect-only", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, "-p", "mini_vllm_labs.grading.plan"],
            cwd=CHECKOUT,
            env=environment | {"LAB_IMPL": "solution", "MINI_VLLM_COLLECT": str(target)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ValueError(f"the graded tests cannot be collected:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        tests: dict[str, list[str]] = json.loads(target.read_text(encoding="utf-8"))
    return tests


def pytest_collection_finish(session: "pytest.Session") -> None:
    """Write the ids of the collected tests with their markers to a file; a pytest hook calls this."""
    tests = {item.nodeid: sorted({marker.name for marker in item.iter_markers()}) for item in session.items}
    Path(COLLECT.get()).write_text(json.dumps(tests), encoding="utf-8")


def public_names(folder: str) -> dict[str, str]:
    """Return the public functions, classes and methods of a phase's solution with their parameters."""
    module = import_module(f"solutions.{Path(folder).name}")
    names: dict[str, str] = {}
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            names[name] = "class"
            names |= {f"{name}.{inner}": seen for inner, seen in class_names(value).items()}
        elif inspect.isfunction(value):
            names[name] = plain_signature(value)
    return names


def class_names(owner: type) -> dict[str, str]:
    names = {}
    for name, value in vars(owner).items():
        if name.startswith("_") and name not in DUNDERS:
            continue
        if inspect.isfunction(value):
            names[name] = plain_signature(value)
        elif isinstance(value, property):
            names[name] = "property"
    return names


def plain_signature(function: Callable[..., object]) -> str:
    """Return the parameters of a function without their types."""
    signature = inspect.signature(function)
    parameters = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def plan_text(phases: list[PlannedPhase]) -> str:
    content: dict[str, Any] = {
        "made by": "python -m mini_vllm_labs.grading.plan",
        "phases": [asdict(p) for p in phases],
    }
    return json.dumps(content, indent=1) + "\n"


def main() -> None:
    phases = make_plan()
    PLAN_FILE.write_text(plan_text(phases), encoding="utf-8")
    for phase in phases:
        print(f"phase {phase.number}: {len(phase.tasks)} tasks, {len(phase.tests)} tests, {phase.points} points")


if __name__ == "__main__":
    main()
