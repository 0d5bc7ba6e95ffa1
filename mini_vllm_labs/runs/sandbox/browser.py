"""Replaces processes and threads in a browser tab, which has neither.

The learner's code runs in the kernel's own process, and Python itself checks the clock at calls and jumps. A loop
inside a C function (`list(itertools.count())`) performs neither, so only restarting the kernel can end it.
"""

import importlib
import linecache
import signal
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from mini_vllm_labs.runs.sandbox.errors import OutOfTime
from mini_vllm_labs.runs.sandbox.frames import is_learners

FORGOTTEN = ("labs", "solutions")
TOOL = 4  # a `sys.monitoring` tool id that debuggers and profilers do not use
# Pyodide reads its interrupt buffer at every 50th call or jump. This buffer checks a clock when it is read, instead of
# holding a number.
CLOCK = """({
    next: 0,
    get 0() {
        const now = performance.now();
        if (now < this.next) return 0;
        this.next = now + 50;
        return 2;  // SIGINT
    },
    set 0(taken) {},
})"""


def forget_learners_code() -> None:
    """Make the next import reload the learner's files and the modules that imported them."""
    for name in [name for name in sys.modules if name.partition(".")[0] in FORGOTTEN]:
        del sys.modules[name]
    importlib.invalidate_caches()
    linecache.clearcache()


class EventWatch:
    """Calls `look` with the running frame every 50 ms and, after `look` raises an exception, at every call and jump.

    Only the learner's calls and jumps count, so that a loop that catches the exception is interrupted again outside its
    `try`. Watching every event makes a loop many times slower, so this starts only when the loop has exceeded its time
    limit. This needs Python 3.12, which every browser has. The class has the same methods as a watcher thread.
    """

    def __init__(self, look: Callable[[FrameType], None]) -> None:
        self._look = look
        self._before: Any = None

    def start(self) -> None:
        self.join()  # an interrupted cell may have left a clock running
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        _set_interrupt_buffer(importlib.import_module("pyodide.code").run_js(CLOCK))

    def join(self) -> None:
        _set_interrupt_buffer(None)
        self._end_events()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if frame is None:
            return
        try:
            self._look(frame)
        except OutOfTime:
            self._begin_events(frame)
            raise

    def _begin_events(self, frame: FrameType | None) -> None:
        self._end_events()
        monitoring = _monitoring()
        monitoring.use_tool_id(TOOL, "mini-vllm time limit")
        monitoring.register_callback(TOOL, monitoring.events.PY_START, self._on_call)
        monitoring.register_callback(TOOL, monitoring.events.JUMP, self._on_jump)
        monitoring.set_events(TOOL, monitoring.events.PY_START)
        while frame is not None:
            if is_learners(frame.f_code.co_filename):
                monitoring.set_local_events(TOOL, frame.f_code, monitoring.events.JUMP)
            frame = frame.f_back

    def _end_events(self) -> None:
        monitoring = _monitoring()
        if monitoring.get_tool(TOOL) is not None:
            monitoring.set_events(TOOL, 0)
            monitoring.free_tool_id(TOOL)

    def _on_call(self, code: CodeType, offset: int) -> None:
        if is_learners(code.co_filename):
            _monitoring().set_local_events(TOOL, code, _monitoring().events.JUMP)
            self._at_event(sys._getframe(1))

    def _on_jump(self, code: CodeType, offset: int, target: int) -> None:
        self._at_event(sys._getframe(1))

    def _at_event(self, frame: FrameType) -> None:
        self._look(frame)
        self._end_events()  # the call that was late has now finished


def _monitoring() -> Any:
    return vars(sys)["monitoring"]  # missing from the Python 3.11 type stubs, which the project uses


def _set_interrupt_buffer(buffer: object) -> None:
    importlib.import_module("pyodide_js").setInterruptBuffer(buffer)
