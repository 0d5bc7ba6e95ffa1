"""A server with the page."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psutil


def drawing_processes() -> list[int]:
    """Return the processes that draw for the servers of this test run."""
    children = psutil.Process().children()
    return [child.pid for child in children if "serving.live.drawing" in cmdline(child)]


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return [] if process.status() == psutil.STATUS_ZOMBIE else process.cmdline()
    except psutil.NoSuchProcess:
        return []


@contextmanager
def watching(http: httpx.Client, **look: Any) -> Iterator[Iterator[tuple[str, Any]]]:
    """Open the stream and yield its events."""
    with http.stream("GET", "/live/stream", params=look) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield events(response)


def events(response: httpx.Response) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def next_of(stream: Iterator[tuple[str, Any]], name: str) -> Any:
    return next(data for kind, data in stream if kind == name)
