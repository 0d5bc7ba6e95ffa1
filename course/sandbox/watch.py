"""A time limit inside a worker that also leaves a record of where the code was.

Python's fault handler writes the record, which works in an endless loop that catches every exception, and in a
crash.
"""

import faulthandler
import os
from pathlib import Path


class Watch:
    """Ends the process when a time limit passes, and writes to a file what every thread was doing."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        faulthandler.enable(self._file)

    def clear(self) -> None:
        """Empty the file."""
        os.ftruncate(self._file.fileno(), 0)

    def start(self, seconds: float) -> None:
        """End the process `seconds` from now. After a fork, each process needs its own timer."""
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._file)

    def stop(self) -> None:
        """Cancel the timer."""
        faulthandler.cancel_dump_traceback_later()
