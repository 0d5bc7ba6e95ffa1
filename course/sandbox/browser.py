"""What takes the place of processes and threads in a browser tab, where there are none.

There the learner's code runs in the kernel's own process, and looks at the clock itself, at its calls and jumps.
A loop inside of a function of C (`list(itertools.count())`) has no such place: there the kernel must be restarted.
"""

import importlib
import linecache
import sys
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from course.sandbox.frames import is_learners

FORGOTTEN = ("labs", "solutions", "conftest")
TOOL = 4  # an id of `sys.monitoring` that no debugger and no profiler takes
PAUSE = 0.05


def forget_learners_code() -> None:
    """Let the next import read the learner's files again, with all that has imported them."""
    for name in [name for name in sys.modules if name.partition(".")[0] in FORGOTTEN]:
        del sys.modules[name]
    importlib.invalidate_caches()
    linecache.clearcache()


class EventWatch:
    """Calls `look` with the learner's running frame every `PAUSE` seconds, and once it has raised, at every event.

    So a loop that catches what is raised is met again outside of its `try`. It needs Python 3.12, which any browser's
    is; its methods are those of a watching thread.
    """

    def __init__(self, look: Callable[[FrameType], None]) -> None:
        self._look = look
        self._next = 0.0

    def start(self) -> None:
        self.join()  # a cell that was ended may have left one
        monitoring = self._monitoring()
        monitoring.use_tool_id(TOOL, "mini-vllm time limit")
        monitoring.register_callback(TOOL, monitoring.events.PY_START, self._on_call)
        monitoring.register_callback(TOOL, monitoring.events.JUMP, self._on_jump)
        monitoring.set_events(TOOL, monitoring.events.PY_START)
        monitoring.restart_events()

    def join(self) -> None:
        monitoring = self._monitoring()
        if monitoring.get_tool(TOOL) is not None:
            monitoring.set_events(TOOL, 0)
            monitoring.free_tool_id(TOOL)

    def _monitoring(self) -> Any:
        return vars(sys)["monitoring"]  # the project's types are those of Python 3.11, which has none

    def _on_call(self, code: CodeType, offset: int) -> object:
        monitoring = self._monitoring()
        if not is_learners(code.co_filename):
            return monitoring.DISABLE  # nothing else becomes slower
        monitoring.set_local_events(TOOL, code, monitoring.events.JUMP)
        self._at_event(sys._getframe(1))
        return None

    def _on_jump(self, code: CodeType, offset: int, target: int) -> None:
        self._at_event(sys._getframe(1))

    def _at_event(self, frame: FrameType) -> None:
        if time.monotonic() >= self._next:
            self._look(frame)
            self._next = time.monotonic() + PAUSE
