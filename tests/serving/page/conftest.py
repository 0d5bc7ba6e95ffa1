"""A server with the page, on the fake model; its event stream; and the page opened in Chromium."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psutil
import pytest

from mini_vllm.config import EngineConfig
from tests.chromium import Pages
from tests.serving.running import PATIENCE, ServerUnderTest, serving, wait_until

SMALL = EngineConfig(max_num_seqs=4, max_num_batched_tokens=128, num_gpu_blocks=121, check_invariants=True)


@pytest.fixture(scope="session")
def server() -> Iterator[ServerUnderTest]:
    with serving(SMALL) as running:
        yield running


@pytest.fixture
def open_page(pages: Pages) -> Callable[..., Any]:
    """Opens a server's pages. Log entries that contain `expected` are not errors; `stream` receives the pages' event
    streams.

    With `first`, the page behaves as on a first visit, which is slow.
    """

    def open_one(
        server: ServerUnderTest, stream: Callable[[Any], None] | None = None, *, first: bool = False, **options: Any
    ) -> Any:
        page = pages.new_page(**{"viewport": {"width": 1280, "height": 800}} | options)
        if not first:
            page.add_init_script("localStorage.setItem('mini-vllm-visited', 'yes')")
        page.set_default_timeout(1000 * PATIENCE)
        if stream is not None:
            page.route("**/live/stream*", stream)
        page.goto(server.address)
        return page

    return open_one


@pytest.fixture
def page(server: ServerUnderTest, open_page: Callable[..., Any]) -> Iterator[Any]:
    wait_until(lambda: not server.call(lambda engine: engine.has_unfinished_requests()), "the engine is idle")
    opened = open_page(server)
    opened.wait_for_selector("#connection[data-state=open]")
    yield opened
    opened.close()
    wait_until(lambda: not server.llm.is_paused, "the engine runs again when the page is closed")


@pytest.fixture
def fresh_server() -> Iterator[ServerUnderTest]:
    with serving(SMALL) as running:
        yield running


@pytest.fixture
def locked_server() -> Iterator[ServerUnderTest]:
    with serving(SMALL, api_key="sesame") as running:
        yield running


def drawing_processes() -> list[int]:
    children = psutil.Process().children()
    return [child.pid for child in children if "mini_vllm_labs.serving.live.drawing" in cmdline(child)]


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return [] if process.status() == psutil.STATUS_ZOMBIE else process.cmdline()
    except psutil.NoSuchProcess:
        return []


@contextmanager
def watching(http: httpx.Client, **look: Any) -> Iterator[Iterator[tuple[str, Any]]]:
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


def send(page: Any, text: str = "hello", max_tokens: int = 20) -> None:
    page.fill("#max-tokens", str(max_tokens))
    page.fill("#message", text)
    page.get_by_role("button", name="Send").click()


def send_and_wait(page: Any, text: str = "hello", max_tokens: int = 5) -> None:
    page.wait_for_selector("#connection[data-state=open]")
    send(page, text, max_tokens)
    page.locator(".answer").last.locator(".bill").wait_for()
