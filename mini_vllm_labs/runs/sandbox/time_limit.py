"""Limits how long the learner's code may run, inside the process that runs it: graded tests, commands, notebooks."""

import contextlib
import ctypes
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from mini_vllm_labs.runs.sandbox import IN_BROWSER
from mini_vllm_labs.runs.sandbox.errors import OutOfTime, out_of_time_after
from mini_vllm_labs.runs.sandbox.frames import is_learners

if TYPE_CHECKING:
    from mini_vllm_labs.runs.sandbox.browser import EventWatch

SECONDS = 10.0
SECONDS_OF_PHASE = {6: 60.0}  # tests in this phase compute with torch
WAITING_FACTOR = 10.0
PAUSE = 0.1
MAX_TRIES = 5
PHASE_FOLDER = re.compile(r"phase(\d+)_")
Watched = tuple[object, float] | None


def seconds_for(phase: int) -> float:
    """Return how many CPU seconds a phase's graded test, or a call into the phase, may take."""
    return SECONDS_OF_PHASE.get(phase, SECONDS)


def end_process(text: str) -> NoReturn:
    """Print a text and end the process, because nothing else can stop the learner's code."""
    print(f"\n{text}", file=sys.__stderr__, flush=True)  # a test may have replaced `sys.stderr`
    os._exit(1)


class TimeLimit:
    """Raises `OutOfTime` in the thread that started it if code in that thread runs too long.

    A watching thread samples the stack. `watched` receives the stack's innermost frame and returns a key for the
    limited code and its time limit in seconds, or None for unlimited code. Time accumulates while the key stays the
    same. The limit is CPU time, so that code is not stopped just because the machine is busy. Waiting code uses no CPU
    time, so it may take `WAITING_FACTOR` times as long in wall time.

    On systems with signals, a signal interrupts the code. Otherwise (if `by_signal` is false), Python interrupts it,
    but a sleeping thread cannot be woken. Code may catch `OutOfTime`, so after `MAX_TRIES` tries `give_up` is called
    with a message and must end the process. A browser has no threads, so there `EventWatch` checks the clock.
    """

    def __init__(
        self, watched: Callable[[FrameType | None], Watched], give_up: Callable[[str], None], *, by_signal: bool = True
    ) -> None:
        self.by_signal = by_signal and hasattr(signal, "pthread_kill") and in_main_thread() and not IN_BROWSER
        self._watched = watched
        self._give_up = give_up
        self._thread = threading.get_ident()
        self._over = threading.Event()
        self._watcher = self._make_watcher()
        self._key: object = None
        self._cpu_start = self._wall_start = 0.0
        self._num_tries = 0
        self._error: type[OutOfTime] = OutOfTime

    def _make_watcher(self) -> "threading.Thread | EventWatch":
        if not IN_BROWSER:
            return threading.Thread(target=self._watch, daemon=True)
        from mini_vllm_labs.runs.sandbox.browser import EventWatch

        return EventWatch(self._look_here)

    def start(self) -> None:
        if self.by_signal:  # a signal that neither pytest-timeout nor profilers use
            self._before = signal.signal(signal.SIGVTALRM, self._on_signal)
        self._watcher.start()

    def stop(self) -> None:
        self._over.set()
        self._watcher.join()
        if self.by_signal:
            signal.signal(signal.SIGVTALRM, self._before)

    def _watch(self) -> None:
        while not self._over.wait(PAUSE):
            if self._is_late(sys._current_frames().get(self._thread)):
                if self._num_tries > MAX_TRIES:
                    self._give_up(cannot_be_stopped(self._error()))
                self._interrupt()

    def _look_here(self, frame: FrameType) -> None:
        if self._is_late(frame):
            raise self._error

    def _is_late(self, frame: FrameType | None) -> bool:
        """Return whether the code seen at the last check has used up its time. `frame` is the innermost frame."""
        key, seconds = self._watched(frame) or (None, 0.0)
        if key is None or key is not self._key:
            self._key, self._num_tries = key, 0
            self._cpu_start, self._wall_start = time.process_time(), time.monotonic()
            return False
        is_waiting = time.monotonic() - self._wall_start >= seconds * WAITING_FACTOR
        if not is_waiting and time.process_time() - self._cpu_start < seconds:
            return False
        self._error = out_of_time_after(seconds * WAITING_FACTOR if is_waiting else seconds)
        self._num_tries += 1
        return True

    def _interrupt(self) -> None:
        if self.by_signal:
            signal.pthread_kill(self._thread, signal.SIGVTALRM)
        else:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(self._error))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        found = self._watched(frame)
        if found is not None and found[0] is self._key:
            raise self._error
        self._key = None  # the call has just finished, or a debugger has stopped it, so its time starts over


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def cannot_be_stopped(error: OutOfTime) -> str:
    return (
        f"your code was {error} and cannot be stopped: it catches every exception, or waits for something.\n"
        "Hint: does one of your loops have an `except` without the name of an exception?"
    )


@contextlib.contextmanager
def limited_calls(
    seconds: float | None = None, give_up: Callable[[str], None] = lambda text: end_process(f"error: {text}")
) -> Iterator[None]:
    """Limit each call into a starter while the `with` block runs. Raises `OutOfTime` in the calling thread.

    Time counts only while the same outermost starter frame stays on the stack, so a command may call the learner's code
    any number of times. `seconds` defaults to the phase's limit.
    """

    def call(frame: FrameType | None) -> Watched:
        outermost = outermost_call(frame)
        return None if outermost is None else (outermost, seconds or seconds_for(phase_of(outermost)))

    limit = TimeLimit(call, give_up)
    limit.start()
    try:
        yield
    finally:
        limit.stop()


def outermost_call(frame: FrameType | None) -> FrameType | None:
    """Return the outermost frame on a stack that belongs to a starter, or None."""
    found = None
    while frame is not None:
        if is_learners(frame.f_code.co_filename):
            found = frame
        frame = frame.f_back
    return found


def phase_of(call: FrameType) -> int:
    """Return the phase of a call into a starter, or 0 if the starter's folder names no phase."""
    phase = PHASE_FOLDER.match(Path(call.f_code.co_filename).parent.name)
    return int(phase[1]) if phase else 0
