"""The limits in time and memory of one graded test. Nothing here is to be filled in."""

import contextlib
import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from course.sandbox.errors import out_of_time_after
from mini_vllm.seams.lineup import CHECKOUT

FOLDER = str(CHECKOUT / "labs")
SECONDS = {6: 60.0}
SECONDS_OF_OTHERS = 10.0
LATE_TESTS_ALLOWED = 3
SHORT_SECONDS = 1.0
EXTRA_BYTES = 2**30
MOST_TRIES = 5
PAUSE = 1.0
VM_STATUS = Path("/proc/self/status")


def seconds_for(phase: int) -> float:
    """Return how long a graded test of a phase may take."""
    return SECONDS.get(phase, SECONDS_OF_OTHERS)


class TimeLimit:
    """Raises `OutOfTime` in the main thread when the code of a test runs for too long.

    By an alarm where the system has one; else (`by_signal` false) another thread does it, which cannot wake
    a sleeping one. Code that catches everything is asked `MOST_TRIES` times, then `give_up` must end the process.
    """

    def __init__(
        self, seconds: float, *, by_signal: bool, is_off: Callable[[], bool], give_up: Callable[[], None]
    ) -> None:
        self.by_signal = by_signal and hasattr(signal, "setitimer") and in_main_thread()
        self._seconds = seconds
        self._is_off = is_off
        self._give_up = give_up
        self._out_of_time = out_of_time_after(seconds)
        self._num_tries = 0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, args=(threading.get_ident(),), daemon=True)

    def start(self) -> None:
        """Let the time run."""
        if self.by_signal:
            signal.signal(signal.SIGALRM, self._on_alarm)
            signal.setitimer(signal.ITIMER_REAL, self._seconds, PAUSE)
        else:
            self._watcher.start()

    def cancel(self) -> None:
        """The test is over."""
        self._over.set()
        if self.by_signal:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        elif self._watcher.is_alive():
            self._watcher.join()

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        if self._must_end(frame):
            raise self._out_of_time

    def _watch(self, thread: int) -> None:
        seconds = self._seconds
        while not self._over.wait(seconds):
            seconds = PAUSE
            if self._must_end(sys._current_frames().get(thread)):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(self._out_of_time))

    def _must_end(self, frame: FrameType | None) -> bool:
        """Return whether to raise here: inside of a test, and not while somebody debugs."""
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
    """Let a test take 1 GiB more than there is, where Linux can tell; torch needs what it needs."""
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
    """Return the memory of data that the process has now; None where that cannot be told."""
    try:
        lines = VM_STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:")), None)
