"""What a worker does before it meets the learner's code: limits, and a record of where it was when it died.

The record (`Watch`) is written by Python's fault handler, which works in an endless loop that catches every
exception, and in a crash.
"""

import faulthandler
import os
import sys
from pathlib import Path

MEMORY_BYTES = 4 * 2**30
FILE_BYTES = 256 * 2**20


def limit_resources() -> None:
    """Limit memory and the size of files, where the system can."""
    if sys.platform == "win32":
        return
    import resource

    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: FILE_BYTES, resource.RLIMIT_DATA: MEMORY_BYTES}
    for kind, most in limits.items():
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or most <= hard:
            resource.setrlimit(kind, (most, most))


class Watch:
    """Ends the process if something takes too long, and writes down what every thread was doing."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        faulthandler.enable(self._file)

    def clear(self) -> None:
        """Forget what was written."""
        os.ftruncate(self._file.fileno(), 0)

    def start(self, seconds: float) -> None:
        """End the process `seconds` from now. After a fork each process needs its own clock."""
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._file)

    def stop(self) -> None:
        """It did not take too long."""
        faulthandler.cancel_dump_traceback_later()
