"""The worker's program: load the learner's file of one or more phases and do what the judge asks.

Everything here runs beside the learner's code and may be bent by it. Nothing that the judge believes depends
on it: what a worker sends are answers, and the judge has the questions' right answers.
"""

import importlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

from classroom.worker.channel import Channel, LinkDownError
from classroom.worker.drivers import DRIVERS
from classroom.worker.link import Link
from classroom.worker.values import Exported
from course.sandbox.explain import explain
from mini_vllm.seams.lineup import CHECKOUT

MEMORY_BYTES = 2 * 2**30
FILE_BYTES = 2**20
MOST_PROCESSES = 32
MOST_FILES = 64
CPU_SECONDS = 300


class LearnersFile:
    """What the judge may ask of the learner's files."""

    def __init__(self) -> None:
        self.modules: dict[int, Any] = {}

    def load(self, phase: int, with_torch: bool) -> None:
        """Import the file of a phase."""
        if with_torch:
            importlib.import_module("classroom.worker.tensors")
        (folder,) = (CHECKOUT / "labs").glob(f"phase{phase}_*")
        self.modules[phase] = importlib.import_module(f"labs.{folder.name}.starter")

    def make(self, kind: str, *arguments: Any) -> Exported:
        """Make a part of an engine."""
        match kind:
            case "scheduler step":
                part = self.modules[1]
            case "kv":
                part = self.modules[2].PagedKVCacheManager(*arguments)
            case "queue":
                part = self.modules[3].PriorityRequestQueue()
            case "preemption":
                part = self.modules[3].RecomputePreemption(*arguments)
            case "prefix cache":
                part = self.modules[4].HashPrefixCache(*arguments)
            case "chunks":
                part = self.modules[5].ChunkedPrefillPolicy(*arguments)
            case _:
                raise ValueError(f"no part is called {kind!r}")
        return Exported(part, kind)

    def drive(self, phase: int, driver: str, *arguments: Any) -> Any:
        """Run a driver on the file of a phase."""
        return DRIVERS[driver](self.modules[phase], *arguments)


def main() -> None:
    """Serve the socket that is standard input, after giving up what a worker does not need."""
    end = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    limit_resources()
    give_up_root(int(sys.argv[1]))
    sys.modules["solutions"] = None  # type: ignore[assignment]  # an accident, not a barrier: that is the jail
    link = Link(Channel(end), 1, ("request", "step", "dict", "list"), in_words, raise_builtin=True)
    link.offer(LearnersFile(), "file", 0)
    try:
        link.serve()
    except LinkDownError:
        os._exit(0)


def in_words(error: BaseException) -> str:
    """Return what the learner should know of an exception."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).name == "starter.py":
        line = f"\n    {error.text.strip()}" if error.text else ""
        return f"starter.py has a syntax error in line {error.lineno}: {error.msg}{line}"
    return explain(error, {})


def limit_resources() -> None:
    """Limit what the process may use, where the system can."""
    import resource

    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: MEMORY_BYTES,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: MOST_FILES,
        resource.RLIMIT_CPU: CPU_SECONDS,
    }
    if sys.argv[1] != "0":  # in a jail the processes are counted apart from everybody else's
        limits[resource.RLIMIT_NPROC] = MOST_PROCESSES
    for kind, most in limits.items():
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or most <= hard:
            resource.setrlimit(kind, (most, most))


def give_up_root(user: int) -> None:
    """Become somebody whom nobody else is, if the jail was built by root. 0 leaves things as they are."""
    if user and os.getuid() == 0:
        os.setgid(user)
        os.setuid(user)


if __name__ == "__main__":
    main()
