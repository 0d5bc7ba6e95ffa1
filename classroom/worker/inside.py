"""The worker's program: load the learner's files and answer the judge's calls.

Everything here runs in the same process as the learner's code, which may change it. The judge relies on none of it:
a worker sends answers only, and the judge compares them with its own.
"""

import importlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from classroom.worker.drivers import DRIVERS
from classroom.worker.encoding import Exported
from classroom.worker.link import Link
from course.sandbox.channel import ChannelError, take_stdio
from course.sandbox.explain import explain
from course.sandbox.limits import Limits, limit_resources
from mini_vllm.assembly.lineup import CHECKOUT

LIMITS = Limits(memory_bytes=2 * 2**30, file_bytes=2**20, num_open_files=64, cpu_seconds=300)
MAX_PROCESSES = 32


class LearnersFile:
    """The calls that the judge makes to the learner's files."""

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
    """Answer the judge's calls on stdin and stdout, without the rights and resources that no starter needs.

    `sys.argv[1]` is the uid to run as in a jail, or 0 without one.
    """
    channel, user = take_stdio(), int(sys.argv[1])
    # Only in a jail does the uid, and so the number of its processes, belong to this worker alone.
    limit_resources(replace(LIMITS, num_processes=MAX_PROCESSES) if user else LIMITS)
    give_up_root(user)
    sys.modules["solutions"] = None  # type: ignore[assignment]  # against accidents only: the jail is the barrier
    link = Link(channel, 1, ("request", "step", "dict", "list"), describe_error, raise_builtin=True)
    link.offer(LearnersFile(), "file", 0)
    try:
        link.serve()
    except ChannelError:
        os._exit(0)


def describe_error(error: BaseException) -> str:
    """Return the explanation of an exception for the learner."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).name == "starter.py":
        line = f"\n    {error.text.strip()}" if error.text else ""
        return f"starter.py has a syntax error in line {error.lineno}: {error.msg}{line}"
    return explain(error, {})


def give_up_root(user: int) -> None:
    """Switch to an unused uid if the jail was built by root. 0 changes nothing."""
    if user and os.getuid() == 0:
        os.setgid(user)
        os.setuid(user)


if __name__ == "__main__":
    main()
