"""The graded tests in a cell."""

import os
import sys
from dataclasses import dataclass
from html import escape
from typing import Self

from course.notebook.interrupt import interruptible
from course.sandbox.worker import Worker
from course.starter_status import starter_path
from mini_vllm.seams.lineup import Lineup

SECONDS = 300
OUTPUT_BYTES = 200_000


@dataclass(frozen=True)
class GradedTests:
    """The outcome of pytest for a phase or a task. True in an `if` when all tests passed."""

    command: str
    passed: bool
    text: str

    @classmethod
    def run(cls, phase: int, task: int | None, lineup: Lineup) -> Self:
        """Run the tests on the lineup's code, in a separate process."""
        folder = f"labs/{starter_path(phase).parent.name}"
        chosen = [folder, *(() if task is None else ("-m", f"task{phase}_{task}"))]
        command = f"LAB_IMPL={lineup} pytest {' '.join(chosen)}"
        options = ["-q", "-p", "no:cacheprovider", "--color=no"]
        pytest = [sys.executable, "-m", "pytest", *options, *chosen]
        environment = os.environ | {"LAB_IMPL": str(lineup), "COLUMNS": "100"}
        with (
            interruptible("the tests were"),
            Worker(pytest, env=environment, has_channel=False, output_bytes=OUTPUT_BYTES) as worker,
        ):
            if not worker.wait(SECONDS):
                return cls(command, False, f"The tests did not end within {SECONDS} seconds.")
            return cls(command, worker.status == 0, worker.output)

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"{self.command}\n{self.text}"

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        colour = "#009E73" if self.passed else "#D55E00"
        style = f"white-space:pre-wrap;border-left:4px solid {colour};padding:2px 12px;max-height:640px;overflow:auto"
        page = f'<code>{escape(self.command)}</code><pre tabindex="0" style="{style}">{escape(self.text)}</pre>'
        return {"text/html": page, "text/plain": repr(self)}
