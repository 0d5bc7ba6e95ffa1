"""The process that reads and grades submissions, one after the other: `python -m classroom.judge.grader`.

It is the judge's own code, but what it reads is a stranger's. So it has limits of its own, and when it fails, only
the submission that it had in hand is lost.
"""

import base64
import os
from pathlib import Path
from typing import Any

from classroom.judge.feedback import feedback
from classroom.judge.judge import Judge
from classroom.judge.play import interrupted_after
from classroom.judge.results import SubmissionGrade
from classroom.judge.settings import Settings
from classroom.judge.submission import Submission, read_submission
from classroom.judge.summary import summary_of
from course.sandbox.channel import ChannelError, take_stdio
from course.sandbox.limits import Limits, limit_resources

MAX_MESSAGE_BYTES = 32 * 2**20
LIMITS = Limits(memory_bytes=6 * 2**30)
FEEDBACK_SECONDS = 30.0
MAX_FEEDBACK = 500_000


def main() -> None:
    """Answer `read` and `grade` until the channel is closed. The first message holds the settings."""
    channel = take_stdio(MAX_MESSAGE_BYTES)
    limit_resources(LIMITS)
    settings = Settings.from_json(channel.receive())
    judge = settings.judge(lambda what, done: channel.send({"what": what, "done": done}))
    while True:
        task = channel.receive()
        channel.send(answer(judge, task))


def answer(judge: Judge, task: dict[str, Any]) -> dict[str, Any]:
    """Do a task: read a submission at a path, or grade one that has been read."""
    if "path" in task:
        return {"submission": packed(read_submission(Path(os.fsdecode(base64.b64decode(task["path"]))), task["name"]))}
    grade = judge.grade(unpacked(task["submission"]))
    return {
        "summary": summary_of(grade),
        "feedback": feedback_in_time(grade, jailed=judge.jail.is_a_jail),
        "seconds": grade.seconds,
    }


def feedback_in_time(grade: SubmissionGrade, *, jailed: bool) -> str:
    """Return the feedback, or its points alone if it took too long to write."""
    try:
        with interrupted_after(FEEDBACK_SECONDS):
            return feedback(grade, jailed=jailed)[:MAX_FEEDBACK]
    except Exception as error:
        points = f"{summary_of(grade)['points']:g} of {grade.max_points} points"
        return f"{grade.name}: {points}\n\nThe details cannot be shown ({type(error).__name__}).\n"


def packed(submission: Submission) -> dict[str, Any]:
    """Return a submission as JSON."""
    files = {str(phase): base64.b64encode(content).decode() for phase, content in submission.starters.items()}
    return {"name": submission.name, "starters": files, "error": submission.error}


def unpacked(values: dict[str, Any]) -> Submission:
    """Return the submission that `packed` packed."""
    files = {int(phase): base64.b64decode(content) for phase, content in values["starters"].items()}
    return Submission(values["name"], files, values["error"])


if __name__ == "__main__":
    try:
        main()
    except ChannelError:
        os._exit(0)
