"""The judge's end of a worker process, which is sandboxed in a jail and answers one question at a time."""

import itertools
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mini_vllm_labs.classroom.judge.jail import ENVIRONMENT, FIRST_USER, Jail
from mini_vllm_labs.classroom.judge.memory_watch import MemoryWatch, cpu_seconds, family
from mini_vllm_labs.classroom.judge.needed_files import WHOLE_ENGINE, copy_course
from mini_vllm_labs.classroom.worker.answers import AnswerError, Json, checked
from mini_vllm_labs.classroom.worker.text import printable
from mini_vllm_labs.runs.sandbox.channel import ChannelError, Message, decoded, encoded
from mini_vllm_labs.runs.sandbox.imports import refused_import
from mini_vllm_labs.runs.sandbox.source_text import complaint_about_content
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess
from mini_vllm_labs.runs.starter_status import lab_folder

START_SECONDS = 60.0
FRESH_SECONDS = 5.0
WHOLE_ENGINES_PLAY = "mini_vllm_labs.classroom.worker.scenario"
NOT_LOADED = "StarterNotLoadedError"


class RightAnswer(NamedTuple):
    """An answer of the reference, and the message in which a worker would send it."""

    value: Json
    content: bytes

    @classmethod
    def of(cls, value: Json) -> "RightAnswer":
        return cls(value, encoded({"answer": value}))


NO_ANSWER = RightAnswer(None, b"\n")  # no message contains a line break


class SubmissionDir:
    """A folder with one learner's starters (phase to content), which workers can read but not change."""

    def __init__(self, starters: Mapping[int, bytes]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mini_vllm_judge_", ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)
        self.path.chmod(0o755)
        self.numbers = itertools.cycle(range(1000))
        labs = self.path / "labs"
        labs.mkdir()
        (labs / "__init__.py").touch()
        for phase, content in starters.items():
            folder = labs / lab_folder(phase)
            folder.mkdir()
            (folder / "__init__.py").touch()
            (folder / "starter.py").write_bytes(loadable(content))

    def course(self, phase: int) -> Path:
        """Return a folder with the starters and the modules that a phase's workers need."""
        folder = self.path / f"course{phase}"
        if not folder.exists():
            shutil.copytree(self.path / "labs", folder / "labs")
            copy_course(phase, folder)
        return folder

    def __enter__(self) -> "SubmissionDir":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def loadable(content: bytes) -> bytes:
    """Return a learner's file or, if it must not be loaded, code that raises an error stating why."""
    if complaint := complaint_about_content(content):
        sentence = complaint[0].upper() + complaint[1:]
        return (
            f"from mini_vllm_labs.runs.sandbox.errors import {NOT_LOADED}\nraise {NOT_LOADED}({sentence!r})\n".encode()
        )
    refusal = refused_import(content)
    return f"raise ImportError({refusal!r})\n".encode() if refusal else content


class StarterRaisedError(Exception):
    """The learner's code raised an exception, which the message explains to its author."""


class JailedWorker:
    """A worker that loads a submission's starters and answers each question before a deadline.

    No deadline is later than `until` (a reading of `time.monotonic`).

    In a jail, when a worker's first process exits, all processes that it started are killed.
    """

    def __init__(self, submission: SubmissionDir, jail: Jail, phase: int, *, with_torch: bool = False) -> None:
        course = submission.course(phase)
        modules = ["torch"] * with_torch
        modules += [WHOLE_ENGINES_PLAY if phase == WHOLE_ENGINE else f"mini_vllm_labs.grading.plays.phase{phase}_plays"]
        arguments = jail.boot(course, first_user() + next(submission.numbers), modules)
        with jail.open_filter() as inherited:
            command = jail.command(course, arguments, inherited)
            self.process = WorkerProcess(command, env=ENVIRONMENT, cwd=submission.path, pass_fds=inherited)
        self.until = float("inf")
        self.cpu_seconds = 0.0
        self._is_jailed = jail.is_a_jail
        self._watch = MemoryWatch(self.process.pid, self.process.kill)
        self.set_deadline(START_SECONDS)

    def __enter__(self) -> "JailedWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self, phase: int) -> None:
        """Import a phase's file. Raises the same errors as `ask`."""
        self.ask({"load": phase, "folder": lab_folder(phase)})

    def start_afresh(self) -> bool:
        """Replace the process with a fresh one that has loaded no files; return whether that worked.

        Without a fresh process, one file's process could answer in place of the next file's. In a jail, therefore, the
        method also checks that the new process is not the previous one.
        """
        self.set_deadline(FRESH_SECONDS)
        word = secrets.token_hex(8)  # rules out an answer that the old process left in the pipe
        *_, old = family(self.process.pid)
        with suppress(ChannelError, StarterRaisedError):
            if self.ask({"fresh": True}) is True and self.ask({"echo": word}) == word:
                *_, new = family(self.process.pid)
                return new != old or not self._is_jailed
        return False

    def ask(self, message: Message, right: RightAnswer = NO_ANSWER) -> Json:
        """Send a message and return the answer. Raises `StarterRaisedError` if the learner's code raises.

        An answer that has the right bytes is not decoded and checked: `right.value` is returned.
        Raises `ChannelError` if the process has exited, is late, or does not send an answer.
        """
        self.process.send(message)
        return self.receive(right)

    def receive(self, right: RightAnswer = NO_ANSWER) -> Json:
        """Return the next answer. Raises the same errors as `ask`."""
        content = self.process.receive_encoded()
        if content == right.content:
            return right.value
        answer = decoded(content)
        if isinstance(answer.get("error"), str):
            raise StarterRaisedError(printable(answer["error"]))
        if answer.keys() != {"answer"}:
            raise ChannelError("malformed", "received a message that is neither an answer nor an error")
        try:
            return checked(answer["answer"])
        except AnswerError as error:
            raise ChannelError("malformed", str(error)) from None

    def set_deadline(self, seconds: float) -> None:
        """Require all answers to arrive within `seconds` from now."""
        self.process.deadline = min(time.monotonic() + seconds, self.until)
        self._cpu_at_start = cpu_seconds(self.process.pid)

    def close(self) -> None:
        """Kill the worker, and store in `cpu_seconds` how much CPU time it has used since its last deadline was set."""
        self.cpu_seconds = max(self.cpu_seconds, cpu_seconds(self.process.pid) - self._cpu_at_start)
        self._watch.stop()
        self.process.close()


class Workers:
    """The workers of one submission: each situation gets a fresh process, but Python starts only once per phase."""

    def __init__(self, submission: SubmissionDir, jail: Jail) -> None:
        self._submission = submission
        self._jail = jail
        self._phase = WHOLE_ENGINE
        self._kept: JailedWorker | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            self._kept.close()

    @property
    def last_cpu_seconds(self) -> float:
        """The CPU seconds that the last worker used after its last deadline was set, if that worker was closed."""
        return 0.0 if self._kept is None else self._kept.cpu_seconds

    def fresh(self, phase: int, *, with_torch: bool = False, until: float) -> JailedWorker:
        """Return a worker that serves a phase and has not loaded any files. No deadline of this worker is later than
        `until`."""
        worker = self._kept
        if worker is not None:
            worker.until = until
            if phase == self._phase and worker.process.is_running and worker.start_afresh():
                return worker
            worker.close()
        self._kept = worker = JailedWorker(self._submission, self._jail, phase, with_torch=with_torch)
        self._phase, worker.until = phase, until
        return worker


def first_user() -> int:
    """Return the first of the thousand user ids that this process uses for workers."""
    return FIRST_USER + os.getpid() % 10_000 * 1000
