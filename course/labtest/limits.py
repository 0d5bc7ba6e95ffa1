"""The limits in time and memory of one graded test, in the learner's own process. Nothing here is to be filled in.

`course/sandbox/limits.py` limits a worker for good. The limits here end with the test, so that the tests after it
still run.
"""

import contextlib
import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from course.sandbox.errors import OutOfTime, out_of_time_after
from mini_vllm.seams.lineup import CHECKOUT

FOLDER = str(CHECKOUT / "labs")
SECONDS = {6: 60.0}
SECONDS_OF_OTHERS = 10.0
WAITING_FACTOR = 10.0
LATE_TESTS_ALLOWED = 3
SHORT_SECONDS = 1.0
EXTRA_BYTES = 2**30
MOST_TRIES = 5
PAUSE = 1.0
VM_STATUS = Path("/proc/self/status")


def seconds_for(phase: int) -> float:
    """Return how many seconds of CPU time a graded test of a phase may take."""
    return SECONDS.get(phase, SECONDS_OF_OTHERS)


class TimeLimit:
    """Raises `OutOfTime` in the main thread when the code of a test runs for too long.

    `seconds` are seconds of CPU time, so that a busy machine fails no test. Code that waits uses none; it may take
    `WAITING_FACTOR` times as long by the clock on the wall. Signals measure both where the system has them; else
    (`by_signal` false) another thread does, which cannot wake a sleeping one. `OutOfTime` is raised up to
    `MOST_TRIES` times, because the code may catch it; then `give_up` must end the process.
    """

    def __init__(
        self, seconds: float, *, by_signal: bool, is_off: Callable[[], bool], give_up: Callable[[], None]
    ) -> None:
        self.by_signal = by_signal and hasattr(signal, "setitimer") and in_main_thread()
        self._seconds = seconds
        self._is_off = is_off
        self._give_up = give_up
        self._num_tries = 0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, args=(threading.get_ident(),), daemon=True)

    def start(self) -> None:
        """Start both clocks."""
        if self.by_signal:
            signal.signal(signal.SIGPROF, self._on_signal)
            signal.signal(signal.SIGALRM, self._on_signal)
            signal.setitimer(signal.ITIMER_PROF, self._seconds, PAUSE)
            signal.setitimer(signal.ITIMER_REAL, self._seconds * WAITING_FACTOR, PAUSE)
        else:
            self._watcher.start()

    def cancel(self) -> None:
        """Stop both clocks: the test is over."""
        self._over.set()
        if self.by_signal:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        elif self._watcher.is_alive():
            self._watcher.join()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._must_end(frame):
            raise self._out_of_time(is_waiting=number == signal.SIGALRM)

    def _watch(self, thread: int) -> None:
        deadline, cpu_start = time.monotonic() + self._seconds * WAITING_FACTOR, time.process_time()
        pause = self._seconds
        while not self._over.wait(pause):
            cpu_left = self._seconds - (time.process_time() - cpu_start)
            is_waiting = time.monotonic() >= deadline
            if cpu_left > 0 and not is_waiting:
                pause = max(0.01, min(cpu_left, deadline - time.monotonic()))
                continue
            pause = PAUSE
            if self._must_end(sys._current_frames().get(thread)):
                error = self._out_of_time(is_waiting=is_waiting)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))

    def _out_of_time(self, *, is_waiting: bool) -> type[OutOfTime]:
        return out_of_time_after(self._seconds * WAITING_FACTOR if is_waiting else self._seconds)

    def _must_end(self, frame: FrameType | None) -> bool:
        """Return whether to raise here: inside of a test, and not while a debugger runs."""
        if self._over.is_set() or self._is_off() or not runs_a_test(frame):
            return False
        self._num_tries += 1
        if self._num_tries > MOST_TRIES:
            self._give_up()
        return True


def runs_a_test(frame: FrameType | None) -> bool:
    """Return whether a stack is inside of the graded tests, or of what they call."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(FOLDER) and not is_hook(frame):
            return True
        frame = frame.f_back
    return False


def is_hook(frame: FrameType) -> bool:
    """Return whether a frame belongs to the machinery around a test."""
    return frame.f_code.co_filename == str(Path(FOLDER, "conftest.py"))


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def limited_memory(phase: int) -> Iterator[None]:
    """Let a test take 1 GiB more than is in use, where `/proc` shows how much that is. Phase 6 has no limit: torch."""
    used = bytes_in_use() if phase < 6 else None
    if used is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = used + EXTRA_BYTES
    if before[0] == resource.RLIM_INFINITY or most < before[0]:
        resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def bytes_in_use() -> int | None:
    """Return the memory of data that the process has now; None where `/proc` does not show it."""
    try:
        lines = VM_STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:")), None)
