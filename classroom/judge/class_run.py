"""A class, graded by several graders at once: one that dies or hangs costs the submission it had, nothing else."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from queue import Queue
from typing import Any, Protocol

from classroom.judge.grading_process import GraderError, digests_of
from classroom.judge.record import Record, Result
from classroom.judge.settings import Settings
from classroom.judge.submission import HandedIn, Submission
from classroom.judge.summary import summary_of


class Grader(Protocol):
    """Grades one submission at a time."""

    def read(self, handed_in: HandedIn) -> dict[str, Any]:
        """Read a submission; return it as JSON, with `error` if it cannot be read."""

    def grade(self, submission: dict[str, Any]) -> Result:
        """Grade a submission that has been read. Raises `GraderError` if that could not be done."""

    def end(self) -> None:
        """End for good, in the middle of a submission if need be. Called from another thread."""


class ClassRun:
    """Grades what was handed in, and keeps each result in the record as it is done."""

    def __init__(self, settings: Settings, record: Record, graders: Sequence[Grader]) -> None:
        self._settings = settings
        self._record = record
        self._graders = graders
        self._idle: Queue[Grader] = Queue()
        self._lock = threading.Lock()
        for grader in graders:
            self._idle.put(grader)

    def results(self, handed_in: Iterable[HandedIn]) -> Iterator[tuple[str, Result]]:
        """Yield (name, result) as they are done. Whatever ends the caller ends all graders."""
        pool = ThreadPoolExecutor(len(self._graders))
        try:
            pending = {pool.submit(self._result, one): one.name for one in handed_in}
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for grader in self._graders:
                grader.end()

    def _result(self, handed_in: HandedIn) -> Result:
        grader = self._idle.get()
        try:
            submission = grader.read(handed_in)
            known = self._record.finished(handed_in.name, digests_of(submission))
            if known is not None:
                return known
            result = grader.grade(submission)
        except GraderError as error:
            return self._ungraded(submission, str(error))  # not kept: the next run tries it again
        finally:
            self._idle.put(grader)
        with self._lock:
            self._record.add(handed_in.name, result)
        return result

    def _ungraded(self, submission: dict[str, Any], error: str) -> Result:
        unread = Submission(submission["name"], error=error)
        grade = replace(self._settings, jailed=False).judge(lambda what, done: None).grade(unread)
        text = f"{unread.name}: {error}\n"
        return {"summary": summary_of(grade), "feedback": text, "seconds": 0.0, "digests": digests_of(submission)}
