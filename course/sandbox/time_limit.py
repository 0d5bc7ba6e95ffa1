"""A time limit for one call into the learner's code, for commands that may run for long themselves."""

import contextlib
import ctypes
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from course.sandbox.errors import out_of_time_after
from course.sandbox.frames import is_learners

SECONDS = 10.0
SECONDS_OF_PHASE = {"6": 60.0}
PAUSE = 0.5
MOST_TRIES = 5
PHASE_FOLDER = re.compile(r"phase(\d)_")


class CallLimit:
    """Raises `OutOfTime` in a thread whose current call into a starter uses too much CPU time.

    A watching thread samples the stack. Only time counts during which the same outermost frame of a starter stays
    on it, so a command that calls the learner's code often may run as long as it likes. The limit is 10 seconds of
    CPU time of the process, 60 in phase 6. Code that catches `OutOfTime` five times ends the process.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._thread = threading.get_ident()
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Start to watch the calling thread."""
        self._watcher.start()

    def stop(self) -> None:
        """Stop watching."""
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        call, started, num_tries = None, 0.0, 0
        while not self._over.wait(PAUSE):
            current = outermost_call(sys._current_frames().get(self._thread))
            if current is None or current is not call:
                call, started, num_tries = current, time.process_time(), 0
                continue
            seconds = self._seconds or seconds_for(call)
            if time.process_time() - started < seconds:
                continue
            if num_tries == MOST_TRIES:
                end_process(seconds)
            num_tries += 1
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread), ctypes.py_object(out_of_time_after(seconds))
            )


def outermost_call(frame: FrameType | None) -> FrameType | None:
    """Return the outermost frame of a stack that belongs to a starter, None if there is none."""
    found = None
    while frame is not None:
        if is_learners(frame.f_code.co_filename):
            found = frame
        frame = frame.f_back
    return found


def seconds_for(call: FrameType) -> float:
    """Return the limit for a call into a starter."""
    phase = PHASE_FOLDER.match(Path(call.f_code.co_filename).parent.name)
    return SECONDS_OF_PHASE.get(phase[1], SECONDS) if phase else SECONDS


def end_process(seconds: float) -> None:
    """End the process, because nothing else ends the learner's code."""
    print(
        f"\nerror: your code was still running after {seconds:g} seconds, and cannot be stopped: it catches every "
        "exception.\nHint: is there an `except` without the name of an exception in a loop of yours?",
        file=sys.__stderr__,
        flush=True,
    )
    os._exit(1)


@contextlib.contextmanager
def limited_calls(seconds: float | None = None) -> Iterator[None]:
    """Limit each call into a starter while the block runs. Raises `OutOfTime` in the calling thread."""
    limit = CallLimit(seconds)
    limit.start()
    try:
        yield
    finally:
        limit.stop()
