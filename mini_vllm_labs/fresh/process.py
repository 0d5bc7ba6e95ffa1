"""Run a function in a new Python process, so that what the learner has just saved is what runs.

It also protects the notebook's kernel from `sys.exit`, crashes and, without torch, from running out of memory. A call
into a starter that does not end is stopped there, and explained.

Functions, arguments and results are pickled: they are the course's own types, and a result may hold any of them.
In a browser, which has no processes, the call is made in the kernel's own, on the learner's files as they are now.

Unpickling lets the sender run code, so it is right only where the sender may do so anyway. Here the sender is the
learner's code on the learner's own machine, under the same user as the kernel. The judge, which runs untrusted
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
COMMAND = (sys.executable, "-X", "faulthandler", "-m", "mini_vllm_labs.fresh")  # a crash in C names its line
WITH_MODEL = "with-model"


class FreshError(Exception):
    """The function did not return: the message explains why. `unwritten` if it reached an unwritten task."""

    def __init__(self, text: str, *, unwritten: bool = False) -> None:
        super().__init__(text)
        self.unwritten = unwritten


class Interrupted(KeyboardInterrupt):
    """A cell was interrupted. Notebooks show the message and no traceback."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython prints."""
        return [str(self)]


@contextmanager
def interruptible(what: str) -> Iterator[None]:
    """Name what was stopped when the cell is interrupted. Raises `Interrupted`, which also ends the cells after it."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted: {what} stopped, without a result.") from None


@dataclass(frozen=True)
class CallResult:
    """How the function ended: with a value, or with a description of the problem."""

    value: Any = None
    problem: str = ""
    unwritten: bool = False


def start_process() -> WorkerProcess:
    return WorkerProcess(COMMAND, max_bytes=MAX_BYTES, output_bytes=OUTPUT_BYTES)


def start_model_process() -> WorkerProcess:
    """Start a process that imports torch and the runner before its call comes, which takes some seconds."""
    return WorkerProcess((*COMMAND, WITH_MODEL), max_bytes=MAX_BYTES, output_bytes=OUTPUT_BYTES)


def in_fresh_process(
    function: Callable[..., T],
    *arguments: object,
    seconds: float = SECONDS,
    start: Callable[[], WorkerProcess] = start_process,
) -> T:
    """Return `function(*arguments)`, computed in a new process; what it prints appears here.

    `start` returns the process, which may have waited for the call (see `ReadyProcess`). `function` must be
    importable by its name. Raises `FreshError`, with a message for the learner, if it raises, takes longer than
    `seconds`, or ends the process. Raises `Interrupted` when the cell is interrupted.
    """
    ending = ending_here(function, arguments) if IN_BROWSER else ending_there(function, arguments, seconds, start)
    if ending.problem:
        raise FreshError(ending.problem, unwritten=ending.unwritten)
    value: T = ending.value
    return value


def ending_there(
    function: Callable[..., object], arguments: Sequence[object], seconds: float, start: Callable[[], WorkerProcess]
) -> CallResult:
    """Return how the call ended in a new process. Raises `FreshError` if the process itself ended."""
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
    """Return how the call ended in this process, with the learner's files read anew, of copies as if in another one."""
    forget_learners_code()
    function, arguments = unpack(pack((function, arguments)))
    ending: CallResult = unpack(pack(ending_of(function, arguments)))
    return ending


class ReadyProcess:
    """Hands out a process that is already running, and starts the next one at once.

    No process serves two calls. One that has loaded a file of the course that was saved since is not handed out;
    starters are loaded by the call itself. The waiting one ends with this object, and with the kernel.
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
            previous.detach()  # it belongs to the caller that took it
        self._end = weakref.finalize(self, self._waiting.close)


def saved_since(moment: float) -> bool:
    """Return whether a file of the course that this process has loaded was saved after a moment."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    paths = [Path(file) for file in files if file]
    return any(path.is_relative_to(CHECKOUT) and path.exists() and path.stat().st_mtime > moment for path in paths)


def receive(worker: WorkerProcess) -> Message:
    """Return the process's message, ignoring whatever else was written to the channel."""
    while True:
        try:
            return worker.receive()
        except ChannelError as error:
            if error.reason != "malformed":
                raise


def serve_call() -> None:
    """Be the new process: make the call that stdin holds and send its `CallResult`."""
    channel = take_stdio(MAX_BYTES)
    function, arguments = unpack(channel.receive()["call"])
    limit_resources(limits_for(arguments))

    def give_up(text: str) -> NoReturn:
        channel.send({"ending": pack(CallResult(problem=f"The run was ended: {text}"))})
        os._exit(1)  # `sys.exit` would wait for the thread that does not end

    ending = ending_of(function, arguments, give_up)
    sys.stdout.flush()  # before the message: its receiver kills this process
    channel.send({"ending": pack(ending)})


def ending_of(
    function: Callable[..., object], arguments: Sequence[object], give_up: Callable[[str], NoReturn] = end_process
) -> CallResult:
    """Make the call, with a limit on each call into a starter, and return how it ended."""
    try:
        with limited_calls(give_up=give_up):
            return CallResult(function(*arguments))
    except (Exception, SystemExit, OutOfTime) as error:  # OutOfTime is no Exception, see there
        return CallResult(problem=describe(error), unwritten=is_not_written(error))


def limits_for(arguments: Iterable[object]) -> Limits:
    """Return the limits for a call. A lineup with phase 6 is served by torch, which may need all memory there is."""
    needs_torch = any(isinstance(value, Lineup) and value.runner != "absent" for value in arguments)
    return Limits(memory_bytes=None if needs_torch else MEMORY_BYTES)


def pack(value: object) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def unpack(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


def describe(error: BaseException) -> str:
    """Return what an exception means. Only one that did not pass through the learner's file has a traceback."""
    if isinstance(error, StalledError | ValueError) and not place_in(error):
        return str(error)
    if place_in(error) or isinstance(error, SystemExit | RecursionError):
        return explain(error, {})
    return "".join(traceback.format_exception(error))
