"""A time limit inside a worker, with a record of what the code was executing.

Python's fault handler writes the record, so it is available even after a crash or an endless loop that catches every
exception.
"""

import faulthandler
import os
import signal
from pathlib import Path

from mini_vllm_labs.runs.sandbox.time_limit import WAITING_FACTOR

MEASURES_CPU = hasattr(signal, "setitimer")


class Watchdog:
    """Ends the process when a time limit expires, and writes every thread's stack to a file.

    The limit is in seconds of CPU time, so that no test fails just because the machine is busy. Waiting code may take
    `WAITING_FACTOR` times as long in wall time. On Windows, the limit is wall time.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")  # opened for appending, so that records start at 0 after `clear`
        faulthandler.enable(self._file)
        if MEASURES_CPU:
            # if it is not handled, the signal kills the process
            faulthandler.register(signal.SIGPROF, self._file, chain=True)

    def clear(self) -> None:
        os.ftruncate(self._file.fileno(), 0)

    def start(self, seconds: float) -> None:
        """End the process after `seconds`. After a fork, each process needs its own timers."""
        if MEASURES_CPU:
            signal.setitimer(signal.ITIMER_PROF, seconds)
        faulthandler.dump_traceback_later(waiting_seconds(seconds), exit=True, file=self._file)

    def stop(self) -> None:
        if MEASURES_CPU:
            signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()


def waiting_seconds(seconds: float) -> float:
    """Return the wall time that a process with a limit of `seconds` may take."""
    return seconds * WAITING_FACTOR if MEASURES_CPU else seconds


def ended_for_cpu_time(status: int) -> bool:
    """Return whether an exit status means that the process used up its CPU time."""
    return MEASURES_CPU and status == -signal.SIGPROF
