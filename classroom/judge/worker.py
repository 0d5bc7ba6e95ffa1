"""A worker process from the judge's side: the sandbox's worker in a jail, called through a link."""

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from classroom.judge.jail import ENVIRONMENT, FIRST_USER, SEEN, Jail
from classroom.worker.link import Link
from classroom.worker.proxies import RemoteFile
from course.sandbox.imports import refused_import
from course.sandbox.worker import Worker
from mini_vllm.assembly.lineup import ALL_NAMES, CHECKOUT

START_SECONDS = 60.0


class SubmissionDir:
    """A folder with one learner's starters (phase to content), which workers can read and not change."""

    def __init__(self, starters: Mapping[int, bytes], jail: Jail) -> None:
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
            refusal = refused_import(content)
            (folder / "starter.py").write_bytes(f"raise ImportError({refusal!r})\n".encode() if refusal else content)
        if not jail.is_a_jail:
            ignored = shutil.ignore_patterns("__pycache__", "embedded_model")
            for name in SEEN:
                source, target = CHECKOUT / name, self.path / name
                target.parent.mkdir(exist_ok=True)
                (shutil.copy if source.is_file() else partial(shutil.copytree, ignore=ignored))(source, target)

    def __enter__(self) -> "SubmissionDir":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


class JailedWorker:
    """A worker that can load the starters of a submission. `link` calls them; each call ends at the deadline.

    In a jail, the end of its first process ends every process that it started.
    """

    def __init__(self, submission: SubmissionDir, jail: Jail) -> None:
        arguments = jail.boot(submission.path, first_user() + next(submission.numbers))
        with jail.open_filter() as inherited:
            command = jail.command(submission.path / "labs", arguments, inherited)
            self.process = Worker(command, env=ENVIRONMENT, cwd=submission.path, pass_fds=inherited)
        self.link = Link(self.process, 2, ("step", "list"), engine_message)
        self.set_deadline(START_SECONDS)

    def __enter__(self) -> "JailedWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def file(self) -> RemoteFile:
        assert isinstance(self.link.file, RemoteFile)
        return self.link.file

    def set_deadline(self, seconds: float) -> None:
        """Require every answer within `seconds` from now."""
        self.process.deadline = time.monotonic() + seconds

    def close(self) -> None:
        """End the worker and every process that it started."""
        self.process.close()


def engine_message(error: BaseException) -> str:
    """Return an exception of the engine as a worker may see it: its text, and no path of the judge's files."""
    return str(error) or type(error).__name__


def first_user() -> int:
    """Return the first of the thousand user ids for the workers of this process."""
    return FIRST_USER + os.getpid() % 10_000 * 1000


def lab_folder(phase: int) -> str:
    """Return the name of a phase's folder under `labs/`."""
    return f"phase{phase}_{ALL_NAMES[phase - 1].lower().replace(' ', '_')}"
