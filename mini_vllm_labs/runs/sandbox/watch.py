"""A time limit inside a worker that also leaves a record of where the code was.

Python's fault handler writes the record, so it works in an endless loop that catches every exception, and in a crash.
"""

import faulthandler
import os
import signal
from pathlib import Path

from mini_vllm_labs.runs.sandbox.time_limit import WAITING_FACTOR

MEASURES_CPU = hasattr(signal, "setitimer")


class Watchdog:
    """Ends the process when a time limit passes, and writes to a file what every thread was doing.

    The limit is in seconds of CPU time, so that a busy machine fails no test; code that waits may take
    `WAITING_FACTOR` times as long by the clock. Windows counts seconds by the clock only.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")  # appending, so that a record begins at 0 after `clear`
        faulthandler.enable(self._file)
        if MEASURES_CPU:
            faulthandler.register(signal.SIGPROF, self._file, chain=True)  # after its record the signal ends all

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
    """Return how long a process whose limit is `seconds` may take by the clock."""
    return seconds * WAITING_FACTOR if MEASURES_CPU else seconds


def ended_for_cpu_time(status: int) -> bool:
    """Return whether an exit status is that of a process that has used up its CPU time."""
    return MEASURES_CPU and status == -signal.SIGPROF
