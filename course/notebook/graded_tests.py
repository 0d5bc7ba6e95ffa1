"""The graded tests in a cell."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from course.fresh.process import interruptible
from course.notebook.graded_page import graded_page
from course.sandbox.worker import WorkerProcess
from course.starter_status import starter_path
from mini_vllm.assembly.lineup import Lineup

SECONDS = 300
OUTPUT_BYTES = 200_000
PLUGIN = "course.labtest.report_file"


@dataclass(frozen=True)
class GradedTests:
    """The outcome of pytest for a phase or a task. True in an `if` when all tests passed.

    `results` are those of `course/labtest/report_file.py`, empty if the tests ended early.
    """

    command: str
    passed: bool
    text: str
    lineup: Lineup
    phase: int
    results: Sequence[dict[str, Any]] = ()

    @classmethod
    def run(cls, phase: int, task: int | None, lineup: Lineup) -> Self:
        """Run the tests on the lineup's code, in a separate process."""
        folder = f"labs/{starter_path(phase).parent.name}"
        chosen = [folder, *(() if task is None else ("-m", f"task{phase}_{task}"))]
        command = f"LAB_IMPL={lineup} pytest {' '.join(chosen)}"
        environment = os.environ | {"LAB_IMPL": str(lineup), "COLUMNS": "100"}
        with TemporaryDirectory() as place:
            file = Path(place, "report.json")
            options = ["-q", "-p", "no:cacheprovider", "--color=no", "-p", PLUGIN, "--lab-report", str(file)]
            pytest = [sys.executable, "-m", "pytest", *options, *chosen]
            with (
                interruptible("the tests were"),
                WorkerProcess(pytest, env=environment, has_channel=False, output_bytes=OUTPUT_BYTES) as worker,
            ):
                if not worker.wait(SECONDS):
                    text = f"The tests did not end within {SECONDS} seconds."
                    return cls(command, False, text, lineup, phase)
                passed, text = worker.status == 0, worker.output
            results = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
        return cls(command, passed, text, lineup, phase, results)

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"{self.command}\n{self.text}"

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        whose = {"starter": "your code", "solution": "the reference's code"}.get(self.lineup[self.phase], "no code")
        return {"text/html": graded_page(self.results, self.phase, whose, repr(self)), "text/plain": repr(self)}
