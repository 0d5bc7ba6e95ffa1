"""The worker's program: load the learner's files and answer the judge's questions.

Everything here runs in the same process as the learner's code, which may change it. The judge relies on none of it:
a worker sends answers only, the judge compares them with its own, and nothing in the worker knows the right ones.
"""

import base64
import importlib
import os
import pickle
import resource
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from classroom.worker.answers import Json
from classroom.worker.drivers import DRIVERS
from course.sandbox.channel import ChannelError, Message, take_stdio
from course.sandbox.explain import explain
from course.sandbox.limits import Limits, limit_resources

MEMORY_BYTES = 1536 * 2**20  # beyond what is mapped already: Python, its libraries, torch
LIMITS = Limits(2 * 2**30, stack_bytes=2**23, file_bytes=2**20, num_open_files=64, cpu_seconds=300, num_signals=64)
MAX_PROCESSES = 32


def main() -> None:
    """Answer the judge's questions on stdin and stdout, without the rights and resources that no starter needs.

    `sys.argv[1]` is the uid to run as in a jail, or 0 without one.
    """
    channel, user = take_stdio(), int(sys.argv[1])
    # Only in a jail does the uid, and so the number of its processes, belong to this worker alone.
    limit_resources(replace(LIMITS, num_processes=MAX_PROCESSES) if user else LIMITS)
    give_up_root(user)
    sys.modules["solutions"] = None  # type: ignore[assignment]  # against accidents only: the jail is the barrier
    files: dict[int, Any] = {}
    try:
        while True:
            message = channel.receive()
            channel.send(answer(files, message))
    except ChannelError:
        os._exit(0)


def answer(files: dict[int, Any], message: Message) -> Message:
    """Load a file, or put it a question; return the answer, or the explanation of what was raised."""
    try:
        if "load" in message:
            files[message["load"]] = load(message["folder"], message["with_torch"])
            return {"answer": None}
        arguments = pickle.loads(zlib.decompress(base64.b64decode(message["arguments"])))  # the judge's own
        found: Json = DRIVERS[message["driver"]](files, *arguments)
        return {"answer": found}
    except BaseException as error:
        return {"error": describe_error(error)[:4000]}


def load(folder: str, with_torch: bool) -> Any:
    if with_torch:
        importlib.import_module("torch")
    limit_memory()
    return importlib.import_module(f"labs.{folder}.starter")


def limit_memory() -> None:
    """Limit all memory that can be mapped from here on: pages that may not be written count as no data, and stay."""
    if sys.platform == "linux":
        num_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit_resources(Limits(address_bytes=num_bytes + MEMORY_BYTES))


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
