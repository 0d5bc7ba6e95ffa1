"""Work that takes seconds, one piece after the other in a thread beside the keyboard, with what each has cost."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any, NamedTuple


class Job(NamedTuple):
    """`work` is called with the event that stops it, `show` with its result and its CPU seconds."""

    work: Callable[[Event], Any]
    show: Callable[[Any, float], None]
    is_verdict: bool  # about a version of a file, so that a new one makes it worthless


class Jobs:
    """A queue of jobs. `poll` is called again and again by the one thread that prints."""

    def __init__(self) -> None:
        self._pool, self._waiting, self._stop = ThreadPoolExecutor(1), list[Job](), Event()
        self._running: tuple[Job, Future[tuple[Any, float]]] | None = None

    def add(self, work: Callable[[Event], Any], show: Callable[[Any, float], None], *, is_verdict: bool) -> None:
        self._waiting.append(Job(work, show, is_verdict))

    def drop_verdicts(self) -> None:
        """Forget the verdicts that are waited for, and stop one that is being made."""
        self._waiting = [job for job in self._waiting if not job.is_verdict]
        if self._running is not None and self._running[0].is_verdict:
            self._stop.set()

    def poll(self) -> None:
        """Show what is done, and begin what is next. Raises what the work has raised, unless it was stopped."""
        if self._running is not None and self._running[1].done():
            (job, future), self._running = self._running, None
            if not self._stop.is_set():
                job.show(*future.result())
        if self._running is None and self._waiting:
            job, self._stop = self._waiting.pop(0), Event()
            self._running = job, self._pool.submit(timed, job.work, self._stop)

    def close(self) -> None:
        """Stop everything, and wait for what is running."""
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)


def timed(work: Callable[[Event], Any], stop: Event) -> tuple[Any, float]:
    """Return what the work returns, and the seconds of CPU that this process and its children took for it."""
    before = sum(os.times()[:4])
    return work(stop), sum(os.times()[:4]) - before
