"""A worker process from the judge's side: start it, talk to it within limits, end all of it."""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from classroom.judge.jail import ENVIRONMENT, FIRST_USER, SEEN, Jail
from classroom.worker.channel import Channel
from classroom.worker.link import Link
from classroom.worker.proxies import RemoteFile
from mini_vllm.seams.lineup import CHECKOUT, PHASE_NAMES

OUTPUT_KEPT = 2000
START_SECONDS = 60.0


class Stage:
    """A folder with one learner's starters (phase to content), which the workers see and cannot change."""

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
            (folder / "starter.py").write_bytes(content)
        if not jail.is_a_jail:
            ignored = shutil.ignore_patterns("__pycache__", "embedded_model")
            for name in SEEN:
                source, target = CHECKOUT / name, self.path / name
                target.parent.mkdir(exist_ok=True)
                (shutil.copy if source.is_file() else partial(shutil.copytree, ignore=ignored))(source, target)

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


class Worker:
    """Starts a worker on a stage. `link` speaks with it until `deadline`; whatever it started dies with it."""

    def __init__(self, stage: Stage, jail: Jail) -> None:
        ours, theirs = socket.socketpair()
        command = jail.command(stage.path / "labs", jail.boot(stage.path, first_user() + next(stage.numbers)))
        self._process = subprocess.Popen(
            command,
            cwd=stage.path,
            env=ENVIRONMENT,
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        theirs.close()
        self._kept = b""
        self._drain = threading.Thread(target=self._keep_the_end, daemon=True)
        self._drain.start()
        self._channel = Channel(ours)
        self.link = Link(self._channel, 2, ("step", "list"), explain_engine)
        self.set_deadline(START_SECONDS)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def file(self) -> RemoteFile:
        assert isinstance(self.link.file, RemoteFile)
        return self.link.file

    def set_deadline(self, seconds: float) -> None:
        """Everything must be answered within so many seconds from now."""
        self._channel.deadline = time.monotonic() + seconds

    def kill(self) -> None:
        """End the worker and what it started. In a jail the end of its first process is the end of all."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._channel.close()

    def last_words(self) -> str:
        """Return the end of what the process printed."""
        self._drain.join(timeout=1)
        return self._kept.decode(errors="replace")

    def _keep_the_end(self) -> None:
        assert self._process.stderr is not None
        while chunk := os.read(self._process.stderr.fileno(), 1 << 16):
            self._kept = (self._kept + chunk)[-OUTPUT_KEPT:]


def explain_engine(error: BaseException) -> str:
    """Return what a worker hears of an exception of the engine: its words, nothing of the judge's files."""
    return str(error) or type(error).__name__


def first_user() -> int:
    """Return the first of a thousand user ids that this judge's workers may have."""
    return FIRST_USER + os.getpid() % 10_000 * 1000


def lab_folder(phase: int) -> str:
    """Return the name of a phase's folder under `labs/`."""
    return f"phase{phase}_{PHASE_NAMES[phase - 1].lower().replace(' ', '_')}"
