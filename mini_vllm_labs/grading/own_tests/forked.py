"""Runs functions in forked processes, several at once, each with a time limit."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

TICK_SECONDS = 0.005


@dataclass(frozen=True)
class Ended:
    """How a process ended: its answer or None, whether it exceeded the time limit, and how many seconds it took."""

    answer: dict[str, Any] | None
    late: bool
    cpu_seconds: float
    seconds: float


class Forked:
    """A forked process that runs `work` and sends the answer, at most 64 KiB of JSON."""

    def __init__(self, work: Callable[[], dict[str, Any]], seconds: float) -> None:
        self._reader, writer = os.pipe()
        self._start, self._seconds = time.monotonic(), seconds
        self._pid = os.fork()
        if self._pid == 0:
            _work_and_exit(work, writer)
        os.close(writer)
        os.set_blocking(self._reader, False)

    def ended(self) -> Ended | None:
        """Return how the process ended, or None while it runs."""
        pid, _, used = os.wait4(self._pid, os.WNOHANG)
        seconds = time.monotonic() - self._start
        late = not pid and seconds > self._seconds
        if not pid and not late:
            return None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        if late:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            _, _, used = os.wait4(self._pid, 0)
        with contextlib.suppress(BlockingIOError):
            text = b""
            while chunk := os.read(self._reader, 1 << 16):
                text += chunk
        os.close(self._reader)
        answer = None
        with contextlib.suppress(ValueError):
            answer = None if late else json.loads(text)
        return Ended(answer, late, used.ru_utime + used.ru_stime, seconds)


def in_processes(works: Iterable[Callable[[], dict[str, Any]]], at_once: int, seconds: float) -> list[Ended]:
    """Run functions in forked processes, and return how each ended, in the same order."""
    waiting, running, found = list(enumerate(works)), dict[int, Forked](), dict[int, Ended]()
    while waiting or running:
        while waiting and len(running) < at_once:
            number, work = waiting.pop(0)
            running[number] = Forked(work, seconds)
        for number, process in list(running.items()):
            if (ended := process.ended()) is not None:
                found[number] = ended
                del running[number]
        time.sleep(TICK_SECONDS)
    return [found[number] for number in sorted(found)]


def _work_and_exit(work: Callable[[], dict[str, Any]], writer: int) -> NoReturn:
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        os.write(writer, json.dumps(work()).encode()[: 1 << 16])
    finally:
        os._exit(0)
