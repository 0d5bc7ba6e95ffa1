"""A process that grades, seen from its parent: started when it is needed, and again after it died."""

import base64
import hashlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from classroom.judge.grader import MAX_MESSAGE_BYTES, packed
from classroom.judge.record import Result
from classroom.judge.settings import Settings
from classroom.judge.submission import HandedIn, Submission
from classroom.worker.text import one_line
from course.sandbox.channel import ChannelError
from course.sandbox.worker import Worker

READ_SECONDS = 60.0
GRACE_SECONDS = 120.0  # beyond the budget of a submission, which the grader itself keeps to
NUM_TRIES = 2
OnProgress = Callable[[str, str, int], None]


class GraderError(RuntimeError):
    """The judge's own process failed: that says nothing about the submission."""


class GradingProcess:
    """A grader of this machine. Ending it ends all that it started."""

    def __init__(self, settings: Settings, on_progress: OnProgress = lambda name, what, done: None) -> None:
        self._settings = settings
        self._on_progress = on_progress
        self._worker: Worker | None = None
        self._is_ended = False

    def read(self, handed_in: HandedIn) -> dict[str, Any]:
        """Read a submission; return it as JSON, with `error` if it cannot be read."""
        path = base64.b64encode(os.fsencode(handed_in.path.absolute())).decode()
        try:
            found: dict[str, Any] = self._ask({"name": handed_in.name, "path": path}, READ_SECONDS)["submission"]
        except ChannelError as error:
            found = packed(Submission(handed_in.name, error=f"it cannot be read: {self._reason(error)}"))
            self.close()
        return found

    def grade(self, submission: dict[str, Any]) -> Result:
        """Grade a submission that has been read. Raises `GraderError` if the process fails at it again and again."""
        reason = ""
        for _ in range(NUM_TRIES):
            try:
                answer = self._ask({"submission": submission}, 60 * self._settings.minutes + GRACE_SECONDS)
            except ChannelError as error:
                reason = self._reason(error)
                self.close()
                if error.reason == "timeout":
                    break
            else:
                return {
                    "summary": answer["summary"],
                    "feedback": answer["feedback"],
                    "seconds": answer["seconds"],
                    "digests": digests_of(submission),
                }
        raise GraderError(f"it could not be graded: {reason}")

    def end(self) -> None:
        """End the process for good."""
        self._is_ended = True
        self.close()

    def close(self) -> None:
        """End the process and everything that it started."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _ask(self, task: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self._is_ended:
            raise ChannelError("closed", "the class is no longer graded")
        if self._worker is None:
            command = [sys.executable, "-m", "classroom.judge.grader"]
            self._worker = Worker(command, max_bytes=MAX_MESSAGE_BYTES)
            self._worker.send(self._settings.as_json())
        worker = self._worker
        worker.deadline = time.monotonic() + seconds
        worker.send(task)
        name = task.get("name") or task["submission"]["name"]
        while True:
            answer = worker.receive()
            if "what" not in answer:
                return answer
            self._on_progress(name, answer["what"], answer["done"])

    def _reason(self, error: ChannelError) -> str:
        if error.reason == "timeout":
            return "the judge's own process was still busy with it when all time was used up"
        last = self._worker.output.strip().splitlines()[-1:] if self._worker else []
        shown = f"; its last line: {one_line(last[0])}" if last else ""
        return f"the judge's own process for it ended (more memory than allowed, or a crash{shown})"


def digests_of(submission: dict[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of each file, by phase; of an unreadable submission, that of the reason."""
    if submission["error"]:
        return {"error": hashlib.sha256(submission["error"].encode(errors="replace")).hexdigest()}
    return {
        phase: hashlib.sha256(base64.b64decode(content)).hexdigest()
        for phase, content in submission["starters"].items()
    }
