"""What a grading worker sends: events such as the start and the result of a test, a line of JSON each."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from course.grading.results import Outcome
from course.sandbox.channel import Channel, ChannelError, Message
from course.sandbox.worker import Worker

MAX_CHARACTERS = 12_000
TICK_SECONDS = 0.05


@dataclass(frozen=True)
class Importing:
    """The learner's file is about to be imported."""


@dataclass(frozen=True)
class NotGradable:
    """Nothing can be graded: the file cannot be imported, or the tests cannot be collected."""

    message: str


@dataclass(frozen=True)
class Loaded:
    """The learner's file is imported: where it was found, and a sentence for each name that it lacks."""

    file: str
    sha256: str
    missing: list[str]


@dataclass(frozen=True)
class TestStarted:
    """A test is about to run."""

    test: str


@dataclass(frozen=True)
class TestEnded:
    """A test has its result. `module` is the file that it tested, None if it tested none."""

    test: str
    outcome: Outcome
    message: str
    seconds: float
    answer: str
    module: str | None


@dataclass(frozen=True)
class Checked:
    """A check of a whole engine has its result."""

    status: Literal["passed", "failed", "not yet"]
    message: str
    steps: dict[str, Any] | None


@dataclass(frozen=True)
class End:
    """The worker has done all of its order."""


Event = Importing | NotGradable | Loaded | TestStarted | TestEnded | Checked | End
KINDS = {kind.__name__: kind for kind in get_args(Event)}


class StoppedError(Exception):
    """The grader's `stop` event was set."""


def send_event(channel: Channel, event: Event) -> None:
    """Send one event, long texts shortened."""
    cut = {key: shorten(value) if isinstance(value, str) else value for key, value in vars(event).items()}
    channel.send({"event": type(event).__name__} | cut)


def event_of(message: Message) -> Event:
    """Return the event that was sent as a message."""
    event: Event = KINDS[message.pop("event")](**message)
    return event


def receive_events(worker: Worker, silence: float, deadline: float, stop: threading.Event) -> Iterator[Event]:
    """Yield events up to `End`, or until the worker has ended, sends nothing for `silence` seconds, or is late.

    Lines that are no messages are ignored: they cost the learner nothing. Raises `StoppedError`.
    """
    last = time.monotonic()
    while not stop.is_set():
        try:
            event = event_of(worker.receive(TICK_SECONDS))
        except ChannelError as error:
            now = time.monotonic()
            if error.reason == "closed" or now - last > silence or now > deadline:
                return
            continue
        last = time.monotonic()
        yield event
        if isinstance(event, End) or last > deadline:
            return
    raise StoppedError


def shorten(text: str) -> str:
    """Return a text that can be shown and sent: cut in the middle if it is very long, broken characters escaped."""
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - MAX_CHARACTERS:,} characters left out ...]\n{text[-half:]}"
