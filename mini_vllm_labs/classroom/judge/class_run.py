"""Grades a class with several processes at once; if one dies or hangs, only its current submission is lost.

A run's record has a line per submission, written as soon as it is graded, so an interruption loses no results.
"""

import base64
import errno
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from queue import Queue
from typing import Any, Protocol, TypedDict

from mini_vllm_labs.classroom.judge.jail import Jail
from mini_vllm_labs.classroom.judge.report import write_whole
from mini_vllm_labs.classroom.judge.results import SubmissionResult
from mini_vllm_labs.classroom.judge.settings import MAX_MESSAGE_BYTES, JudgeSettings
from mini_vllm_labs.classroom.judge.submission import HandedIn, Submission
from mini_vllm_labs.classroom.worker.text import one_line
from mini_vllm_labs.runs.sandbox.channel import ChannelError, Message
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess

VERSION = 1


class RecordedResult(TypedDict):
    """The result of a graded submission. `digests` contains the SHA-256 of its files, keyed by phase."""

    summary: SubmissionResult
    feedback: str
    seconds: float
    digests: dict[str, str]


class RecordError(ValueError):
    """The file is not the record of a run."""


class Record:
    """Stores results keyed by name in memory and, given a path, in a file with the settings of its run."""

    def __init__(self, settings: JudgeSettings, path: Path | None = None) -> None:
        self._path = path
        self.results: dict[str, RecordedResult] = {}
        if path is not None and path.exists():
            self._read(path)
        elif path is not None:
            write_whole(path, json.dumps({"version": VERSION, "settings": asdict(settings)}) + "\n")

    def add(self, name: str, result: RecordedResult) -> None:
        """Store a result; when this returns, it is on disk."""
        self.results[name] = result
        if self._path is not None:
            with self._path.open("ab", buffering=0) as file:
                num_bytes = file.seek(0, os.SEEK_END)
                line = json.dumps({"name": name, "result": result}).encode() + b"\n"
                try:
                    if file.write(line) < len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    os.fsync(file.fileno())
                except OSError as error:
                    file.truncate(num_bytes)  # otherwise, the next line would be lost too
                    raise RecordError(
                        f"{self._path} cannot be written: {error.strerror}. The results so far are kept: free some "
                        "space and run the same command again"
                    ) from None

    def _read(self, path: Path) -> None:
        lines = path.read_bytes().split(b"\n")
        cut_short = lines.pop()  # empty unless the run was killed while it was writing
        for number, line in enumerate(lines[1:], start=2):
            try:
                entry = json.loads(line)
                self.results[entry["name"]] = entry["result"]
            except (ValueError, KeyError, TypeError) as error:
                raise RecordError(f"{path}, line {number}: not a result: {error}") from None
        if cut_short:
            with path.open("r+b") as file:
                file.truncate(path.stat().st_size - len(cut_short))


def recorded_settings(path: Path) -> JudgeSettings:
    """Return a record's settings. Raises `RecordError` if the file is not a record."""
    if not path.is_file():
        raise RecordError(f"{path} is a folder, a device or a pipe: name a regular file")
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline())
        if head["version"] != VERSION:
            raise RecordError(f"{path} was written by a different version of the judge")
        return JudgeSettings.from_json(head["settings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{path} is not a judge record: {error}") from None


# added to the time for a submission, to allow for reading it, drawing situations and writing feedback
GRACE_SECONDS = 300.0
NUM_TRIES = 2


class GraderError(RuntimeError):
    """The judge's own process failed, which is not a verdict on the submission."""


class SubmissionGrader(Protocol):
    """Grades submissions, either on this machine or on a cluster."""

    def grade(self, handed_in: HandedIn, known: RecordedResult | None = None) -> RecordedResult: ...

    def end(self) -> None: ...


class GradingProcess:
    """A grading process on this machine, started on demand and restarted if it dies.

    Ending this process also ends every process that it started.
    """

    def __init__(
        self, settings: JudgeSettings, on_progress: Callable[[str, str, int], None] = lambda name, what, done: None
    ) -> None:
        self._settings = settings
        self._on_progress = on_progress
        self._worker: WorkerProcess | None = None
        self._is_ended = False

    def grade(self, handed_in: HandedIn, known: RecordedResult | None = None) -> RecordedResult:
        """Read and grade a submission; return the known result if the files are unchanged.

        Raises `GraderError` if the process fails repeatedly.
        """
        found: RecordedResult | None = self.answer(task_of(handed_in, known)) or known
        assert found is not None
        return found

    def answer(self, task: Message) -> Any:
        """Return the grading process's answer to a task. Raises `GraderError` if the process fails repeatedly."""
        reason = ""
        for _ in range(NUM_TRIES):
            try:
                return self._ask(task)
            except ChannelError as error:
                reason = self._reason(error)
                self.close()
                if error.reason == "timeout":
                    break
        raise GraderError(f"the submission could not be graded: {reason}")

    def end(self) -> None:
        self._is_ended = True
        self.close()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _ask(self, task: Message) -> Any:
        if self._is_ended:
            raise ChannelError("closed", "the class run has ended")
        if self._worker is None:
            self._worker = WorkerProcess(
                [sys.executable, "-m", "mini_vllm_labs.classroom.judge.grader"], max_bytes=MAX_MESSAGE_BYTES
            )
            self._worker.send(asdict(self._settings))
        worker = self._worker
        worker.deadline = time.monotonic() + 60 * self._settings.minutes + GRACE_SECONDS
        worker.send(task)
        while "result" not in (answer := worker.receive()):
            self._on_progress(task["name"], answer["what"], answer["done"])
        return answer["result"]

    def _reason(self, error: ChannelError) -> str:
        if error.reason == "timeout":
            return "the judge's process was still busy with it when the time ran out"
        last = self._worker.output.strip().splitlines()[-1:] if self._worker else []
        shown = f"; its last line: {one_line(last[0])}" if last else ""
        return f"the judge's process for it ended (too much memory, or a crash{shown})"


def task_of(handed_in: HandedIn, known: RecordedResult | None) -> Message:
    """Return the message that tells a grading process to grade a submission on this machine."""
    path = base64.b64encode(os.fsencode(handed_in.path.absolute())).decode()
    return {"name": handed_in.name, "path": path, "known": known and known["digests"]}


class ClassRun:
    """Grades submissions and adds each result to the record as soon as it is done."""

    def __init__(self, settings: JudgeSettings, record: Record, graders: Sequence[SubmissionGrader]) -> None:
        self._settings = settings
        self._record = record
        self._graders = graders
        self._idle: Queue[SubmissionGrader] = Queue()
        self._lock = threading.Lock()
        for grader in graders:
            self._idle.put(grader)

    def results(self, handed_in: Iterable[HandedIn]) -> Iterator[tuple[str, RecordedResult]]:
        """Yield (name, result) in order of completion. Stops all graders when the caller stops iterating."""
        pool = ThreadPoolExecutor(len(self._graders))
        try:
            pending = {pool.submit(self._result, one): one.name for one in handed_in}
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for grader in self._graders:
                grader.end()

    def _result(self, handed_in: HandedIn) -> RecordedResult:
        known = self._record.results.get(handed_in.name)
        grader = self._idle.get()
        try:
            result = grader.grade(handed_in, known)
        except GraderError as error:  # not recorded, so that the next run tries it again
            from mini_vllm_labs.classroom.judge.judge import Judge  # loads pytest and the graded tests' cases

            ungraded = Judge(self._settings, Jail()).grade(Submission(handed_in.name, error=str(error)))
            text = f"{handed_in.name}: {error}\n"
            return {"summary": ungraded.result(), "feedback": text, "seconds": 0.0, "digests": {}}
        finally:
            self._idle.put(grader)
        if result is not known:
            with self._lock:
                self._record.add(handed_in.name, result)
        return result
