"""A class, graded by several processes at once: one that dies or hangs costs the submission it had, nothing else."""

import base64
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from queue import Queue
from typing import Any

from classroom.judge.grader import MOST_MESSAGE_BYTES, packed
from classroom.judge.record import Record, Result
from classroom.judge.settings import Settings
from classroom.judge.submission import HandedIn, Submission
from classroom.judge.summary import summary_of
from course.sandbox.channel import ChannelError
from course.sandbox.worker import Worker

READ_SECONDS = 60.0
GRACE_SECONDS = 120.0  # beyond the budget of a submission, which the grader itself keeps to
NUM_TRIES = 2
OnProgress = Callable[[str, str, int], None]


class Grader:
    """A grading process, started when it is needed and again after it died."""

    def __init__(self, settings: Settings, on_progress: OnProgress = lambda name, what, done: None) -> None:
        self._settings = settings
        self._on_progress = on_progress
        self._worker: Worker | None = None
        self.is_ended = False

    def read(self, handed_in: HandedIn) -> dict[str, Any]:
        """Read a submission; return it as JSON, with `error` if it cannot be read."""
        path = base64.b64encode(os.fsencode(handed_in.path.absolute())).decode()
        try:
            found: dict[str, Any] = self._ask({"name": handed_in.name, "path": path}, READ_SECONDS)["submission"]
        except ChannelError as error:
            self.close()
            found = packed(Submission(handed_in.name, error=f"it cannot be read: {self._reason(error)}"))
        return found

    def grade(self, submission: dict[str, Any]) -> Result:
        """Grade a submission that has been read. Never raises for what is in it."""
        reason = ""
        for _ in range(NUM_TRIES):
            try:
                answer = self._ask({"submission": submission}, 60 * self._settings.minutes + GRACE_SECONDS)
            except ChannelError as error:
                self.close()
                reason = self._reason(error)
                if self.is_ended or error.reason == "timeout":
                    break
            else:
                return {
                    "summary": answer["summary"],
                    "feedback": answer["feedback"],
                    "seconds": answer["seconds"],
                    "digests": digests_of(submission),
                }
        return self._failed(submission, f"it could not be graded: {reason}")

    def end(self) -> None:
        """End the process for good."""
        self.is_ended = True
        self.close()

    def close(self) -> None:
        """End the process and everything that it started."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _ask(self, task: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self._worker is None:
            command = [sys.executable, "-m", "classroom.judge.grader"]
            self._worker = Worker(command, max_bytes=MOST_MESSAGE_BYTES)
            self._worker.deadline = time.monotonic() + seconds
            self._worker.send(self._settings.as_json())
        self._worker.deadline = time.monotonic() + seconds
        self._worker.send(task)
        name = task.get("name") or task["submission"]["name"]
        while True:
            answer = self._worker.receive()
            if "what" not in answer:
                return answer
            self._on_progress(name, answer["what"], answer["done"])

    def _failed(self, submission: dict[str, Any], error: str) -> Result:
        unread = Submission(submission["name"], error=error)
        grade = replace(self._settings, jailed=False).judge(lambda what, done: None).grade(unread)
        text = f"{unread.name}: {error}\n"
        return {"summary": summary_of(grade), "feedback": text, "seconds": 0.0, "digests": digests_of(submission)}

    def _reason(self, error: ChannelError) -> str:
        if error.reason == "timeout":
            return "the judge's own process was still busy with it when all time was used up"
        return "the judge's own process for it ended (more memory than allowed, or a crash)"


class ClassRun:
    """Grades what was handed in with `num_jobs` processes, and keeps each result in the record as it is done."""

    def __init__(
        self,
        settings: Settings,
        record: Record,
        num_jobs: int,
        on_progress: OnProgress = lambda name, what, done: None,
    ) -> None:
        self._record = record
        self._graders: Queue[Grader] = Queue()
        self._all = [Grader(settings, on_progress) for _ in range(num_jobs)]
        self._lock = threading.Lock()
        for grader in self._all:
            self._graders.put(grader)

    def results(self, handed_in: Iterable[HandedIn]) -> Iterator[tuple[str, Result]]:
        """Yield (name, result) as they are done. Whatever ends the caller ends all processes."""
        pool = ThreadPoolExecutor(len(self._all))
        try:
            pending = {pool.submit(self._result, one): one.name for one in handed_in}
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for grader in self._all:
                grader.end()

    def _result(self, handed_in: HandedIn) -> Result:
        grader = self._graders.get()
        try:
            submission = grader.read(handed_in)
            result = self._record.finished(handed_in.name, digests_of(submission))
            if result is None:
                result = grader.grade(submission)
                if not grader.is_ended:
                    with self._lock:
                        self._record.add(handed_in.name, result)
            return result
        finally:
            self._graders.put(grader)


def digests_of(submission: dict[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of each file, by phase; of an unreadable submission, that of the reason."""
    if submission["error"]:
        return {"error": hashlib.sha256(submission["error"].encode(errors="replace")).hexdigest()}
    return {
        phase: hashlib.sha256(base64.b64decode(content)).hexdigest()
        for phase, content in submission["starters"].items()
    }
