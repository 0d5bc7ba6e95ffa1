"""The worker's program, which loads the learner's files and answers the judge's questions.

Everything here runs in the same process as the learner's code, which could modify it, so the judge does not trust it. A
worker only sends answers, which the judge compares with its own. The worker does not know the right answers, except
that a call must be cheap and leave nothing behind (`grading/plays/work.py`).
"""

import base64
import ctypes
import gc
import importlib
import os
import pickle
import resource
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from mini_vllm_labs.classroom.worker.drivers import DRIVERS
from mini_vllm_labs.runs.sandbox.channel import Channel, ChannelError, Message, take_stdio
from mini_vllm_labs.runs.sandbox.explain import explain
from mini_vllm_labs.runs.sandbox.limits import Limits, limit_resources
from mini_vllm_labs.runs.sandbox.source_text import newer_syntax

MEMORY_BYTES = 1536 * 2**20  # on top of the memory already mapped by Python, its libraries and torch
LIMITS = Limits(2 * 2**30, stack_bytes=2**23, file_bytes=2**20, num_open_files=64, cpu_seconds=300, num_signals=64)
MAX_PROCESSES = 32
CAN_FORK = sys.platform == "linux"  # on macOS, torch uses system libraries that do not survive a fork
FRESH = 75  # exit status of a process that must be replaced with a new one
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2


def main() -> None:
    """Answer the judge's questions on stdin and stdout, in a fresh process whenever the judge requests one.

    The first process loads shared modules but no learner's code; it forks the other processes one at a time, and waits
    for each. `sys.argv` contains the modules to import (may be empty), the filter against new processes in hexadecimal,
    and the uid to use in a jail (0 if there is no jail).
    """
    channel, (modules, no_processes, user) = take_stdio(), sys.argv[1:]
    sys.modules["solutions"] = None  # type: ignore[assignment]  # only against accidents; the jail is the barrier
    for module in modules.split():
        importlib.import_module(module)
    gc.freeze()  # otherwise, each process's garbage collector would write to the shared pages and so copy them
    while True:
        if not CAN_FORK or (child := os.fork()) == 0:
            confine(int(user), bytes.fromhex(no_processes))
            answer_all(channel, stays=not CAN_FORK and "torch" in sys.modules)
        end_like(os.waitpid(child, 0)[1])
        channel.take_back()


def confine(user: int, no_processes: bytes) -> None:
    """Permanently give up the privileges and resources that no starter needs."""
    # Only in a jail does the worker have a separate uid, so only there does the process count exclude other processes.
    limit_resources(replace(LIMITS, num_processes=MAX_PROCESSES) if user else LIMITS)
    give_up_root(user)
    if no_processes:
        install_filter(no_processes)


def install_filter(program: bytes) -> None:
    """Install a BPF program that filters system calls. Raises `OSError` if the system rejects it."""

    class Program(ctypes.Structure):
        _fields_ = (("num_instructions", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(len(program) // 8, program)), 0, 0):
        raise OSError(ctypes.get_errno(), "the system call filter cannot be installed")


def answer_all(channel: Channel, *, stays: bool) -> NoReturn:
    """Answer questions until the judge requests a fresh process or closes the channel.

    If `stays` is true, this process continues after such a request, because loading torch again takes too long.
    """
    files: dict[int, Any] = {}
    try:
        while "fresh" not in (message := channel.receive()) or stays:
            send(channel, answer(files, message, channel))
        channel.send({"answer": CAN_FORK})
    except ChannelError:
        os._exit(0)
    os._exit(FRESH)


def send(channel: Channel, message: Message) -> None:
    """Send an answer or, if it is too long, the reason for refusing it."""
    try:
        channel.send(message)
    except ValueError as error:
        channel.send({"error": f"Your code returned too much: {error}."})


def end_like(status: int) -> None:
    """Exit with a child's status, unless a fresh process is to replace the child."""
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    if (code := os.waitstatus_to_exitcode(status)) != FRESH:
        os._exit(code)


def answer(files: dict[int, Any], message: Message, channel: Channel | None = None) -> Message:
    """Load a file or answer a question; return the answer, or an explanation of the exception.

    The calls of a script follow on the channel; each arrives after the previous call has been answered. An echo returns
    the message itself, to show that the process responds and has no other output.
    """
    try:
        if "fresh" in message:
            return {"answer": True}
        if "echo" in message:
            return {"answer": message["echo"]}
        if "load" in message:
            files[message["load"]] = load(message["folder"])
            return {"answer": None}
        driver, arguments = DRIVERS[message["driver"]], unpacked(message)
        if channel is None or "num_calls" not in message:
            return {"answer": driver(files, *arguments)}
        calls = (unpacked(channel.receive()) for _ in range(message["num_calls"]))
        found = driver(files, *arguments, calls, lambda one: send(channel, {"answer": one}))
        return {"answer": found[-1:]}  # the answers to the calls have been sent
    except BaseException as error:
        return {"error": describe_error(error)[:4000]}


def unpacked(message: Message) -> tuple[Any, ...]:
    """Return the judge's own arguments."""
    found: tuple[Any, ...] = pickle.loads(zlib.decompress(base64.b64decode(message["arguments"])))
    return found


def load(folder: str) -> Any:
    limit_memory()
    return importlib.import_module(f"labs.{folder}.starter")


def limit_memory() -> None:
    """Limit how much more address space can be mapped. A data limit would not count read-only pages."""
    if sys.platform == "linux":
        num_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit_resources(Limits(address_bytes=num_bytes + MEMORY_BYTES))


def describe_error(error: BaseException) -> str:
    """Explain an exception to the learner."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).name == "starter.py":
        line = f"\n    {error.text.strip()}" if error.text else ""
        return f"starter.py has a syntax error in line {error.lineno}: {error.msg}{line}\n{newer_syntax(error)}"
    return explain(error, {})


def give_up_root(user: int) -> None:
    """Switch to the uid `user` if root built the jail. 0 changes nothing."""
    if user and os.getuid() == 0:
        os.setgid(user)
        os.setuid(user)


if __name__ == "__main__":
    main()
