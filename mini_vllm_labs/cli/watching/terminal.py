"""The loop of `mini-vllm watch`: keys, saves, jobs, and the run and page that conclude every finish."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from rich.console import Console

from mini_vllm_labs.cli.share import free_name, page_of, write_page
from mini_vllm_labs.cli.watching.screen import Read, show_step
from mini_vllm_labs.fresh.process import FreshError
from mini_vllm_labs.fresh.shown_run import ShownRun
from mini_vllm_labs.pictures.terminal.step_table import totals
from mini_vllm_labs.pictures.terminal.step_view import FAINT

QUIET_SECONDS = 0.15
MISSING_SECONDS = 1.0  # a file that has been missing for this long was really deleted, not just saved
Stamp = tuple[int, int, int] | None
TICK_SECONDS = 0.1


class Job(NamedTuple):
    """`work` is called with the event that stops it, `show` with its result and its CPU seconds."""

    work: Callable[[Event], Any]
    show: Callable[[Any, float], None]
    is_verdict: bool  # describes one version of a file, so it is useless once there is a newer one


class Jobs:
    """A job queue. `poll` is called repeatedly by the only thread that prints anything."""

    def __init__(self) -> None:
        self._pool, self._waiting, self._stop = ThreadPoolExecutor(1), list[Job](), Event()
        self._running: tuple[Job, Future[tuple[Any, float]]] | None = None

    def add(self, work: Callable[[Event], Any], show: Callable[[Any, float], None], *, is_verdict: bool) -> None:
        self._waiting.append(Job(work, show, is_verdict))

    def drop_verdicts(self) -> None:
        """Drop the verdicts that are pending, and stop the one in progress."""
        self._waiting = [job for job in self._waiting if not job.is_verdict]
        if self._running is not None and self._running[0].is_verdict:
            self._stop.set()

    def poll(self) -> None:
        """Show finished work and start the next job. An error raised by the work is raised again, unless the work was
        stopped."""
        if self._running is not None and self._running[1].done():
            (job, future), self._running = self._running, None
            if not self._stop.is_set():
                job.show(*future.result())
        if self._running is None and self._waiting:
            job, self._stop = self._waiting.pop(0), Event()
            self._running = job, self._pool.submit(timed, job.work, self._stop)

    def close(self) -> None:
        """Stop all work, and wait until the running work has finished."""
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)


def timed(work: Callable[[Event], Any], stop: Event) -> tuple[Any, float]:
    """Return the work's result, and how many CPU seconds this process and its children spent on it."""
    before = sum(os.times()[:4])
    return work(stop), sum(os.times()[:4]) - before


def stamp(path: Path) -> Stamp:
    """Return a file's state, which changes when it is saved; None if the file is missing."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


class Saves:
    """Watches some files: their times, sizes and inodes. Times are in seconds, from any clock.

    While an editor is saving, the file may be missing or only half written. A change therefore counts only after the
    file has been left unchanged for a while.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._known = {path: stamp(path) for path in paths}
        self._changing: dict[Path, tuple[Stamp, float]] = {}

    def poll(self, moment: float) -> list[Path]:
        """Return files that were saved or deleted since the last call, and have been left unchanged since then."""
        saved = []
        for path, known in self._known.items():
            now = stamp(path)
            seen, since = self._changing.get(path, (known, moment))
            if now == known:
                self._changing.pop(path, None)
            elif now != seen:
                self._changing[path] = now, moment
            elif moment - since >= (MISSING_SECONDS if now is None else QUIET_SECONDS):
                saved.append(path)
        for path in saved:
            self._known[path] = self._changing.pop(path)[0]
        return saved


class Watched:
    """Watches files at a terminal; without a terminal (`read` is None), it only prints and reads no keys."""

    keys = at_the_end = after = ""

    def __init__(self, console: Console, read: Read | None, name: str, paths: Sequence[Path]) -> None:
        self.console, self.read, self.name = console, read, name
        self.saves, self.jobs = Saves(paths), Jobs()
        self.run: ShownRun | None = None
        self.step = 0

    def begin(self) -> None:
        """Print the learner's progress, and start the pending work."""

    def saved(self, path: Path) -> None:
        """React to a save."""

    def engine(self, *, real: bool) -> ShownRun:
        """Return a run to show; if `real` is true, the run uses the real model, which may take seconds."""
        raise NotImplementedError

    def actions(self) -> dict[str, Callable[[], None]]:
        """Return each key's action."""
        return {"o": self.show_step, "s": lambda: self.ask(self.write, real=True)}

    def go(self) -> None:
        """Watch until `q` or Ctrl-C."""
        actions = self.actions()
        try:
            self.begin()
            while True:
                for key in (self.read(TICK_SECONDS) if self.read else "").lower():
                    if key == "q":
                        return
                    actions.get(key, self.show_keys)()
                if self.read is None:
                    time.sleep(TICK_SECONDS)
                self.jobs.poll()
                for path in self.saves.poll(time.monotonic()):
                    self.saved(path)
        finally:
            self.close()

    def close(self) -> None:
        """Stop all work, and wait until the running work has finished."""
        self.jobs.close()

    def say(self, text: str, style: str | None = None) -> None:
        self.console.print(text, style=style, markup=False, soft_wrap=True)

    def show_keys(self) -> None:
        if self.read is not None:
            self.console.print(self.keys, style=FAINT, markup=False)

    def ask(self, show: Callable[[ShownRun], None], *, real: bool) -> None:
        """Run the engine and `show` its run, or print why it cannot run."""

        def work(stop: Event) -> ShownRun | str:
            try:
                return self.engine(real=real)
            except (FreshError, ValueError) as error:
                return f"Your engine did not run to the end.\n{error}"

        self.jobs.add(work, lambda run, seconds: self.say(run) if isinstance(run, str) else show(run), is_verdict=False)

    def show_step(self) -> None:
        """Print a step of the engine: first the most eventful step, then those that follow it."""

        def show(run: ShownRun) -> None:
            self.step = run.first if self.run is None else (self.step + 1) % max(1, len(run.recording.steps))
            self.run = run
            show_step(self.console, run, self.step)
            self.say("o: the next step", "dim")

        if self.run is None:
            self.ask(show, real=False)
        else:
            show(self.run)

    def show_end(self, run: ShownRun) -> None:
        """Print the run at the end of a finish, and write its page if there is no page yet."""
        show_step(self.console, run, run.first)
        self.say(f"\n{totals(list(run.recording.steps))}")
        for asked, said in run.texts.items():
            self.say(f"\n{asked}\n  {said}")
        self.say(f"\n{self.at_the_end}, and you have finished: {self.name}.", "bold")
        if not page_name(self.name).exists():
            self.write(run)
        self.say(self.after)
        self.show_keys()

    def write(self, run: ShownRun) -> None:
        """Write a run's page under an unused name."""
        file = free_name(page_name(self.name))
        try:
            write_page(file, page_of(run).encode())
            self.say(f"A page to share: {file.resolve()}")
        except OSError as error:
            self.say(f"{file} cannot be written: {error.strerror}")


def page_name(finish: str) -> Path:
    return Path(f"mini-vllm-{finish}.html")
