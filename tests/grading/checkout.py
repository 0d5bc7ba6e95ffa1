"""A copy of the course in which starters are written and graded."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from mini_vllm.assembly.lineup import PHASE_NAMES
from mini_vllm_labs.runs.starter_status import LABS, starter_path
from tests.course.surface import solution_path

ROOT = Path(__file__).parents[2]
COPIED = ("conftest.py", "pyproject.toml", "mini_vllm", "mini_vllm_labs", "labs", "solutions")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "embedded_model", "*.gz", "*.svg")
PHASES = range(1, len(PHASE_NAMES) + 1)
ELECTIVES = LABS[len(PHASE_NAMES) :]
WITHOUT_ENGINES = """
import sys
from mini_vllm_labs.cli.main import app
from mini_vllm_labs.grading import grader
from mini_vllm_labs.grading.results import NOT_CHECKED
grader.oracle_check = grader.stack_check = lambda *arguments: NOT_CHECKED
app(sys.argv[1:], prog_name="mini-vllm")
"""
SECONDS = "3"  # CPU time for one test: a correct answer takes less than this, even on a busy machine


class Checkout:
    """The course in a different folder. Each `grade` runs in a separate process."""

    def __init__(self, folder: Path, *, solutions: bool = True) -> None:
        self.folder = folder
        for name in COPIED:
            if (ROOT / name).is_file():
                shutil.copy(ROOT / name, folder / name)
            elif solutions or name != "solutions":
                shutil.copytree(ROOT / name, folder / name, ignore=NOT_COPIED)
        (folder / "mini_vllm" / "embedded_model").symlink_to(ROOT / "mini_vllm" / "embedded_model")

    @classmethod
    def at(cls, folder: Path) -> "Checkout":
        checkout = cls.__new__(cls)
        checkout.folder = folder
        return checkout

    def starter(self, phase: int) -> Path:
        return starter_path(phase, self.folder)

    def solve(self, *phases: int) -> None:
        for phase in phases:
            self.starter(phase).write_text(solution(phase), encoding="utf-8")

    def clear(self) -> None:
        for phase in (*PHASES, *ELECTIVES):
            shutil.copy(starter_path(phase), self.starter(phase))

    def thin_out(self, num_tests: int) -> None:
        """Keep about `num_tests` tests of each task in the plan, chosen evenly from all of them."""
        path = self.folder / "mini_vllm_labs" / "grading" / "plan.json"
        plan = json.loads(path.read_text(encoding="utf-8"))
        for task in (task for phase in plan["phases"] for task in phase["tasks"]):
            task["tests"] = task["tests"][:: max(1, len(task["tests"]) // num_tests)]
        path.write_text(json.dumps(plan), encoding="utf-8")

    def run(self, *arguments: str, engines: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `mini-vllm grade`, optionally without its checks of whole engines, which are slow."""
        program = ["-m", "mini_vllm_labs.cli"] if engines else ["-c", WITHOUT_ENGINES]
        environment = {"COLUMNS": "80", "MINI_VLLM_GRADE_SECONDS": SECONDS} | environment
        return self._python(*program, "grade", *arguments, **environment)

    def pytest(self, *arguments: str, **environment: str) -> str:
        done = self._python(
            "-m", "pytest", "-p", "no:cacheprovider", *arguments, **({"LAB_IMPL": "starter"} | environment)
        )
        assert done.returncode in (0, 1, 2), done.stdout + done.stderr
        return done.stdout + done.stderr

    def _python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LAB_IMPL"))}
        kept |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100"} | environment
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=self.folder, env=kept, capture_output=True, text=True, check=False)

    def grade(self, *arguments: str, engines: bool = True, **environment: str) -> dict[str, Any]:
        done = self.run("--json", *arguments, engines=engines, **environment)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found | {"exit code": done.returncode}


def solution(phase: int) -> str:
    return solution_path(phase).read_text(encoding="utf-8")


def with_line(text: str, function: str, line: str) -> str:
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == function]
    first = nodes[0].body[1] if ast.get_docstring(nodes[0]) else nodes[0].body[0]
    lines = text.splitlines(keepends=True)
    lines.insert(first.lineno - 1, " " * first.col_offset + line + "\n")
    return "".join(lines)
