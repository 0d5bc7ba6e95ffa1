"""Runs a function in a new Python process, so that the learner's latest saved code runs.

The new process also protects the notebook's kernel from `sys.exit`, crashes and, without torch, from running out of
memory. A call into a starter that never returns is stopped and explained in that process.

Functions, arguments and results are pickled, because a result may contain any of the course's types.
A browser has no subprocesses: there, the call runs in the kernel, with the learner's files reloaded.

Unpickling lets the sender run code, so it is safe only if the sender is allowed to run code anyway. Here the sender is
the learner's code on the learner's machine, running as the same user as the kernel. The judge, which runs untrusted
code, never unpickles.
"""

import base64
import os
import pickle
import sys
import time
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from mini_vllm.assembly.lineup import CHECKOUT, Lineup
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.runs.sandbox import IN_BROWSER
from mini_vllm_labs.runs.sandbox.browser import forget_learners_code
from mini_vllm_labs.runs.sandbox.channel import ChannelError, Message, take_stdio
from mini_vllm_labs.runs.sandbox.errors import OutOfTime
from mini_vllm_labs.runs.sandbox.explain import explain, explain_death, is_not_written, place_in
from mini_vllm_labs.runs.sandbox.limits import Limits, limit_resources
from mini_vllm_labs.runs.sandbox.time_limit import end_process, limited_calls
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess

T = TypeVar("T")
SECONDS = 120.0
OUTPUT_BYTES = 20_000
MAX_BYTES = 2**30
MEMORY_BYTES = 4 * 2**30
# makes a crash in C report the line where it happened
COMMAND = (sys.executable, "-X", "faulthandler", "-m", "mini_vllm_labs.fresh")
WITH_MODEL = "with-model"


class FreshError(Exception):
    """Raised with an explanation if the function did not return a value.

    `unwritten` means that the function reached an unwritten task.
    """

    def __init__(self, text: str, *, unwritten: bool = False) -> None:
        super().__init__(text)
        self.unwritten = unwritten


class Interrupted(KeyboardInterrupt):
    """Raised if a cell is interrupted. Notebooks show the message without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints."""
        return [str(self)]


@contextmanager
def interruptible(what: str) -> Iterator[None]:
    """Raise `Interrupted` with the stopped work's name if the cell is interrupted; this also stops the cells after
    it."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted: {what} stopped without a result.") from None


@dataclass(frozen=True)
class CallResult:
    """The outcome of the function: a value, or a description of the problem."""

    value: Any = None
    problem: str = ""
    unwritten: bool = False


def start_process() -> WorkerProcess:
    return WorkerProcess(COMMAND, max_bytes=MAX_BYTES, output_bytes=OUTPUT_BYTES)


def start_model_process() -> WorkerProcess:
    """Start a process that imports torch and the runner, which takes several seconds, before its call arrives."""
    return WorkerProcess((*COMMAND, WITH_MODEL), max_bytes=MAX_BYTES, output_bytes=OUTPUT_BYTES)


def in_fresh_process(
    function: Callable[..., T],
    *arguments: object,
    seconds: float = SECONDS,
    start: Callable[[], WorkerProcess] = start_process,
) -> T:
    """Return `function(*arguments)`, computed in a new process whose output is shown here.

    `start` returns the process, which may already have been waiting for the call (see `ReadyProcess`). `function` must
    be importable by its name. Raises `FreshError`, with a message for the learner, if `function` raises an exception,
    takes longer than `seconds`, or ends the process. Raises `Interrupted` when the cell is interrupted.
    """
    ending = ending_here(function, arguments) if IN_BROWSER else ending_there(function, arguments, seconds, start)
    if ending.problem:
        raise FreshError(ending.problem, unwritten=ending.unwritten)
    value: T = ending.value
    return value


def ending_there(
    function: Callable[..., object], arguments: Sequence[object], seconds: float, start: Callable[[], WorkerProcess]
) -> CallResult:
    """Make the call in a new process and return its outcome. Raises `FreshError` if the process itself ended."""
    ending: CallResult | None = None
    with interruptible("the run was"), start() as worker:
        worker.deadline = time.monotonic() + seconds
        try:
            worker.send({"call": pack((function, arguments))})
            ending = unpack(receive(worker)["ending"])
        except ChannelError as error:
            status = None if error.reason == "timeout" else worker.status
        worker.kill()
        printed = worker.output
    if printed:
        print(printed, end="" if printed.endswith("\n") else "\n")
    if ending is None:
        raise FreshError(explain_death(status, "", seconds, seconds)[1])
    return ending


def ending_here(function: Callable[..., object], arguments: Sequence[object]) -> CallResult:
    """Make the call in this process, with the learner's files reloaded and the arguments copied, and return its
    outcome."""
    forget_learners_code()
    function, arguments = unpack(pack((function, arguments)))
    ending: CallResult = unpack(pack(ending_of(function, arguments)))
    return ending


class ReadyProcess:
    """Provides a process that is already running, and immediately starts the next one.

    Each process serves one call. A waiting process is discarded if any course file has been saved since it started;
    starters are loaded by the call itself. The waiting process ends when this object is deleted or the kernel exits.
    """

    def __init__(self, start: Callable[[], WorkerProcess]) -> None:
        self._start = start
        self._prepare()

    def take(self) -> WorkerProcess:
        """Return a process for one call."""
        worker = self._waiting
        if not worker.is_running or saved_since(self._since):
            worker.close()
            worker = self._start()
        self._prepare()
        return worker

    def _prepare(self) -> None:
        self._since = time.time()
        self._waiting = self._start()
        if previous := getattr(self, "_end", None):
            previous.detach()  # owned by the caller
        self._end = weakref.finalize(self, self._waiting.close)


def saved_since(moment: float) -> bool:
    """Return whether any course file that this process has loaded was saved after a given moment."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    paths = [Path(file) for file in files if file]
    return any(path.is_relative_to(CHECKOUT) and path.exists() and path.stat().st_mtime > moment for path in paths)


def receive(worker: WorkerProcess) -> Message:
    """Return the process's next message, ignoring any other data in the channel."""
    while True:
        try:
            return worker.receive()
        except ChannelError as error:
            if error.reason != "malformed":
                raise


def serve_call() -> None:
    """Serve as the new process: make the call read from stdin and send its `CallResult`."""
    channel = take_stdio(MAX_BYTES)
    function, arguments = unpack(channel.receive()["call"])
    limit_resources(limits_for(arguments))

    def give_up(text: str) -> NoReturn:
        channel.send({"ending": pack(CallResult(problem=f"The run was ended: {text}"))})
        os._exit(1)  # `sys.exit` would wait for the thread, which never ends

    ending = ending_of(function, arguments, give_up)
    sys.stdout.flush()  # must come before the message, because its receiver kills this process
    channel.send({"ending": pack(ending)})


def ending_of(
    function: Callable[..., object], arguments: Sequence[object], give_up: Callable[[str], NoReturn] = end_process
) -> CallResult:
    """Make the call, with a time limit on each call into a starter, and return its outcome."""
    try:
        with limited_calls(give_up=give_up):
            return CallResult(function(*arguments))
    except (Exception, SystemExit, OutOfTime) as error:  # OutOfTime does not derive from Exception
        return CallResult(problem=describe(error), unwritten=is_not_written(error))


def limits_for(arguments: Iterable[object]) -> Limits:
    """Return the resource limits for a call. A lineup with phase 6 uses torch, which may need all available memory."""
    needs_torch = any(isinstance(value, Lineup) and value.runner != "absent" for value in arguments)
    return Limits(memory_bytes=None if needs_torch else MEMORY_BYTES)


def pack(value: object) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def unpack(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


def describe(error: BaseException) -> str:
    """Describe an exception. Include a traceback only if it did not pass through the learner's file."""
    if isinstance(error, StalledError | ValueError) and not place_in(error):
        return str(error)
    if place_in(error) or isinstance(error, SystemExit | RecursionError):
        return explain(error, {})
    return "".join(traceback.format_exception(error))
