"""A worker for the learner's code: its environment, and the events it sends as lines of JSON."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from mini_vllm_labs.grading.results import EngineCheck, TestResult
from mini_vllm_labs.runs.sandbox.channel import MAX_BYTES, Channel, ChannelError
from mini_vllm_labs.runs.sandbox.limits import Limits
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess

LIMITS = Limits(memory_bytes=4 * 2**30, file_bytes=256 * 2**20)
NOT_INHERITED = ("LAB_IMPL", "PYTHONSAFEPATH", "PYTHONSTARTUP", "PYTHONOPTIMIZE", "PYTHONINSPECT", "PYTHONWARNINGS")
SETTINGS = {
    "LAB_IMPL": "starter",
    "PYTHONHASHSEED": "0",  # sets are printed in a fixed order, so that equal answers have equal digests
    "PYTHONUTF8": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONBREAKPOINT": "0",  # a breakpoint would wait forever, because nobody is there to debug
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # other installed plugins must not change a grade
    "OMP_NUM_THREADS": "1",  # two phases are graded in parallel
    "CUDA_VISIBLE_DEVICES": "",  # gives the same random numbers on every machine
    "HF_HUB_OFFLINE": "1",
}
MAX_CHARACTERS = 12_000
TICK_SECONDS = 0.05  # seconds before Ctrl-C is noticed


@dataclass(frozen=True)
class Importing:
    """A learner's file is about to be imported; `phase` is set if the worker imports several."""

    phase: int = 0


@dataclass(frozen=True)
class Outdated:
    """A course file that the worker imported has since changed, so a new worker must do the grading."""


@dataclass(frozen=True)
class NotGradable:
    """Grading is impossible: the file cannot be imported, or the tests cannot be collected."""

    message: str


@dataclass(frozen=True)
class Loaded:
    """The learner's file has been imported. `missing` contains a sentence for each name that the file lacks."""

    file: str
    sha256: str
    missing: list[str]


@dataclass(frozen=True)
class TestStarted:
    test: str


@dataclass(frozen=True)
class End:
    """The worker has finished its order."""


Event = Importing | Outdated | NotGradable | Loaded | TestStarted | TestResult | EngineCheck | End
KINDS = {kind.__name__: kind for kind in get_args(Event)}


class StoppedError(Exception):
    """The grader's `stop` event was set."""


def send_event(channel: Channel, event: Event) -> None:
    cut = {key: shorten(value) if isinstance(value, str) else value for key, value in vars(event).items()}
    channel.send({"event": type(event).__name__} | cut)


def receive_events(worker: WorkerProcess, silence: float, deadline: float, stop: threading.Event) -> Iterator[Event]:
    """Yield events until `End`, or until the worker exits, is silent for `silence` seconds, or exceeds its deadline.

    Lines that are not messages are ignored, and the learner loses no points for them. Raises `StoppedError`.
    """
    last = time.monotonic()
    while not stop.is_set():
        try:
            message = worker.receive(TICK_SECONDS)
        except ChannelError as error:
            now = time.monotonic()
            if error.reason == "closed" or now - last > silence or now > deadline:
                return
            continue
        last = time.monotonic()
        event: Event = KINDS[message.pop("event")](**message)
        yield event
        if isinstance(event, End) or last > deadline:
            return
    raise StoppedError


def shorten(text: str) -> str:
    """Make a text safe to show and send: remove the middle of a very long text, and escape lone surrogates."""
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - MAX_CHARACTERS:,} characters left out ...]\n{text[-half:]}"


class GradingWorker(WorkerProcess):
    """Runs `python ARGUMENTS` in the checkout.

    The process imports the modules that it needs, then waits for an order, a JSON object.
    """

    def __init__(self, arguments: list[str], max_bytes: int = MAX_BYTES) -> None:
        super().__init__([sys.executable, *arguments], env=environment(), max_bytes=max_bytes)
        self._trace = self.folder / "trace.txt"

    def give(self, order: dict[str, Any]) -> None:
        with contextlib.suppress(ChannelError):
            # a worker that has exited: `receive` raises the error, and `output` shows why
            self.send(order | {"trace": str(self._trace)})

    @property
    def trace(self) -> str:
        """The fault handler's output, which shows where each thread was; empty if there is no output."""
        try:
            return self._trace.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def environment() -> dict[str, str]:
    """Return the environment of a worker, without the caller's settings for Python and pytest."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    for name in NOT_INHERITED:
        kept.pop(name, None)
    return kept | SETTINGS
