"""The process that reads and grades submissions, one after another.

The process runs as `python -m mini_vllm_labs.classroom.judge.grader`.

It runs the judge's own code, but reads untrusted files. The process therefore runs with limits, and if it fails, only
the current submission is lost.
"""

import base64
import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mini_vllm_labs.classroom.judge.feedback import feedback
from mini_vllm_labs.classroom.judge.jail import Jail, compile_course, find_jail
from mini_vllm_labs.classroom.judge.judge import Judge
from mini_vllm_labs.classroom.judge.results import SubmissionGrade
from mini_vllm_labs.classroom.judge.settings import MAX_MESSAGE_BYTES, JudgeSettings
from mini_vllm_labs.classroom.judge.submission import Submission, read_submission
from mini_vllm_labs.runs.sandbox.channel import ChannelError, take_stdio
from mini_vllm_labs.runs.sandbox.imports import refused_import
from mini_vllm_labs.runs.sandbox.limits import Limits, limit_resources

LIMITS = Limits(memory_bytes=6 * 2**30)
READ_SECONDS = (30.0, 120.0)  # the limits for two attempts: the machine may have been busy during the first
FEEDBACK_SECONDS = 30.0
MAX_FEEDBACK = 500_000


def main() -> None:
    """Answer tasks until the channel is closed. The first message contains the settings."""
    channel = take_stdio(MAX_MESSAGE_BYTES)
    limit_resources(LIMITS)
    settings = JudgeSettings.from_json(channel.receive())
    jail = find_jail() if settings.jailed else Jail()
    compile_course()
    judge = Judge(settings, jail, lambda what, done: channel.send({"what": what, "done": done}))
    while True:
        task = channel.receive()
        channel.send({"result": result_of(judge, task)})


def result_of(judge: Judge, task: dict[str, Any]) -> dict[str, Any] | None:
    """Read and grade a task's submission; return None if its digests are unchanged.

    A task either names a path or contains a submission that was read on another machine. With `only_read`, return the
    task for the machine that will grade it.
    """
    submission = read_in_time(lambda: submission_of(task), task["name"])
    digests = digests_of(submission)
    if digests == task["known"]:
        return None
    if task.get("only_read"):
        return {"name": submission.name, "known": None, "read": as_json(submission)}
    grade = judge.grade(submission)
    text = feedback_in_time(grade, jailed=judge.jail.is_a_jail)
    return {"summary": grade.result(), "feedback": text, "seconds": grade.seconds, "digests": digests}


def submission_of(task: dict[str, Any]) -> Submission:
    if sent := task.get("read"):
        starters = {int(phase): base64.b64decode(content) for phase, content in sent["starters"].items()}
        return Submission(task["name"], starters, sent["error"], sent["notes"])
    return read_submission(Path(os.fsdecode(base64.b64decode(task["path"]))), task["name"])


def as_json(submission: Submission) -> dict[str, Any]:
    starters = {str(phase): base64.b64encode(content).decode() for phase, content in submission.starters.items()}
    return {"starters": starters, "error": submission.error, "notes": submission.notes}


def read_in_time(read: Callable[[], Submission], name: str) -> Submission:
    """Read a submission and check its imports, allowing more time on a second try, because a few files are slow."""
    for seconds in READ_SECONDS:
        with suppress(TimeoutError), interrupted_after(seconds):
            submission = read()
            for content in submission.starters.values():
                refused_import(content)
            return submission
    return Submission(name, error=f"it took longer than {READ_SECONDS[-1]:g} seconds to read")


def feedback_in_time(grade: SubmissionGrade, *, jailed: bool) -> str:
    """Return the feedback, or only the points if writing the feedback failed or took too long."""
    try:
        with interrupted_after(FEEDBACK_SECONDS):
            return feedback(grade, jailed=jailed)[:MAX_FEEDBACK]
    except Exception as error:
        found = grade.result()
        points = f"{found['points']:g} of {found['max']} points"
        return f"{grade.name}: {points}\n\nThe details cannot be shown ({type(error).__name__}).\n"


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in the block after `seconds`, because an untrusted file may keep the judge busy."""

    def interrupt(number: int, frame: object) -> None:
        raise TimeoutError("the judge was still grading the submission when time ran out")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def digests_of(submission: Submission) -> dict[str, str]:
    """Return the SHA-256 of each file, keyed by phase; for an unreadable submission, the SHA-256 of the reason."""
    if submission.error:
        return {"error": hashlib.sha256(submission.error.encode(errors="replace")).hexdigest()}
    return {str(phase): hashlib.sha256(content).hexdigest() for phase, content in submission.starters.items()}


if __name__ == "__main__":
    try:
        main()
    except ChannelError:
        os._exit(0)
