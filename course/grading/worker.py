"""A worker for the learner's code, in an environment in which two runs are the same."""

import contextlib
import os
import sys
from typing import Any

from course.sandbox.channel import ChannelError
from course.sandbox.limits import Limits
from course.sandbox.worker import Worker

LIMITS = Limits(memory_bytes=4 * 2**30, file_bytes=256 * 2**20)
NOT_INHERITED = ("LAB_IMPL", "PYTHONSAFEPATH", "PYTHONSTARTUP", "PYTHONOPTIMIZE", "PYTHONINSPECT", "PYTHONWARNINGS")
SETTINGS = {
    "LAB_IMPL": "starter",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONBREAKPOINT": "0",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
}


class GradingWorker(Worker):
    """Runs `python ARGUMENTS` in the checkout and sends it an order, a JSON object."""

    def __init__(self, arguments: list[str], order: dict[str, Any]) -> None:
        super().__init__([sys.executable, *arguments], env=environment())
        self._trace = self.folder / "trace.txt"
        with contextlib.suppress(ChannelError):  # it has ended already: `receive` raises then, `output` shows why
            self.send(order | {"trace": str(self._trace)})

    @property
    def trace(self) -> str:
        """What the fault handler wrote: where each thread was. Empty if it wrote nothing."""
        try:
            return self._trace.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def environment() -> dict[str, str]:
    """Return the environment of a worker: no setting of the caller's Python or pytest, no old bytecode."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    for name in NOT_INHERITED:
        kept.pop(name, None)
    return kept | SETTINGS
