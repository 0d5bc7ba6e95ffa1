"""What a grading worker sends: events such as the start and the result of a test."""

import threading
import time
from collections.abc import Iterator
from typing import Any

from course.sandbox.channel import Channel, ChannelError
from course.sandbox.worker import Worker

MAX_CHARACTERS = 12_000
TICK_SECONDS = 0.05
Event = dict[str, Any]


class StoppedError(Exception):
    """The grader's `stop` event was set."""


def send_event(channel: Channel, event: str, **content: Any) -> None:
    """Send one event, long texts shortened."""
    cut = {key: shorten(value) if isinstance(value, str) else value for key, value in content.items()}
    channel.send({"event": event} | cut)


def receive_events(worker: Worker, silence: float, deadline: float, stop: threading.Event) -> Iterator[Event]:
    """Yield events up to "end", or until the worker has ended, sends nothing for `silence` seconds, or is late.

    Lines that are no messages are ignored: they cost the learner nothing. Raises `StoppedError`.
    """
    last = time.monotonic()
    while not stop.is_set():
        try:
            event = worker.receive(TICK_SECONDS)
        except ChannelError as error:
            now = time.monotonic()
            if error.reason == "closed" or now - last > silence or now > deadline:
                return
            continue
        last = time.monotonic()
        yield event
        if event["event"] == "end" or last > deadline:
            return
    raise StoppedError


def shorten(text: str) -> str:
    """Return a text that can be shown and sent: cut in the middle if it is very long, broken characters escaped."""
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - MAX_CHARACTERS:,} characters left out ...]\n{text[-half:]}"
