"""A process that is started before it is needed, so that a panel's next run does not wait for Python to start."""

import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from course.sandbox.worker import WorkerProcess
from mini_vllm.assembly.lineup import CHECKOUT


class ReadyProcess:
    """Hands out a process that is already running, and starts the next one at once.

    No process serves two calls. One that has loaded a file of the course that was saved since is not handed out;
    starters are loaded by the call itself. The waiting one ends with this object, and with the kernel.
    """

    def __init__(self, start: Callable[[], WorkerProcess]) -> None:
        self._start = start
        self._prepare()

    def take(self) -> WorkerProcess:
        """Return a process for one call."""
        worker = self._waiting
        if not worker.is_running or saved_since(self._since):
            worker.close()
            worker = self._start()
        self._prepare()
        return worker

    def _prepare(self) -> None:
        self._since = time.time()
        self._waiting = self._start()
        if previous := getattr(self, "_end", None):
            previous.detach()
        self._end = weakref.finalize(self, self._waiting.close)


def saved_since(moment: float) -> bool:
    """Return whether a file of the course that this process has loaded was saved after a moment."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    paths = [Path(file) for file in files if file]
    return any(path.is_relative_to(CHECKOUT) and path.exists() and path.stat().st_mtime > moment for path in paths)
