"""Measures the CPU time that a worker's processes use, and the memory that they actually hold, including page
tables."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

MAX_HELD_BYTES = 2 * 2**30
PAUSE = 0.05
COUNTED = ("VmRSS:", "VmPTE:")


class MemoryWatch:
    """Calls `end` once when a process and its descendants use more than `MAX_HELD_BYTES`.

    The limits inside a worker count mapped memory, but not page tables or file pages.
    """

    def __init__(self, pid: int, end: Callable[[], None]) -> None:
        self._pid = pid
        self._end = end
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(PAUSE):
            if sum(map(held_bytes, family(self._pid))) > MAX_HELD_BYTES:
                self._end()
                return


def family(pid: int) -> Iterator[int]:
    """Yield a process and its running descendants."""
    yield pid
    for child in read(f"/proc/{pid}/task/{pid}/children").split():
        yield from family(int(child))


def held_bytes(pid: int) -> int:
    """Return how many bytes of memory a process uses, or 0 if it has ended."""
    lines = [line.split() for line in read(f"/proc/{pid}/status").splitlines()]
    return sum(1024 * int(line[1]) for line in lines if line and line[0] in COUNTED)


def cpu_seconds(pid: int) -> float:
    """Return how many CPU seconds a process and its running descendants have used, or 0 on systems without `/proc`."""
    stats = [read(f"/proc/{one}/stat").rpartition(") ")[2].split() for one in family(pid)]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats if fields) / os.sysconf("SC_CLK_TCK")


def read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
