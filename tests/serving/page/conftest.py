"""A server with the page, on the fake model, and pages of it in Chromium."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm.engine.async_llm import AsyncLLM
from serving.server import RunningServer, running_server
from serving.settings import ServerSettings
from tests.serving.page.serving_page import on_engine
from tests.serving.running import PATIENCE, wait_until

SMALL = EngineConfig(max_num_seqs=4, max_num_batched_tokens=128, num_gpu_blocks=121, check_invariants=True)


def small_llm(config: EngineConfig = SMALL) -> AsyncLLM:
    return AsyncLLM(build_engine(config, parse_lineup("solution:1-5")))


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    with running_server(small_llm()) as running:
        yield running


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages of a server. None of them may write an error to the console, except what the test expects."""
    pages: list[Any] = []
    problems: list[str] = []

    def open_one(server: RunningServer, *, expected: str = "", **options: Any) -> Any:
        page = browser.new_page(viewport={"width": 1280, "height": 800}, **options)
        page.set_default_timeout(1000 * PATIENCE)
        pages.append(page)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda message: (
                problems.append(message.text)
                if message.type in ("error", "warning") and not (expected and expected in message.text)
                else None
            ),
        )
        page.goto(server.address)
        return page

    yield open_one
    for page in pages:
        page.close()
    assert problems == []


@pytest.fixture
def page(server: RunningServer, open_page: Callable[..., Any]) -> Iterator[Any]:
    """A page on a server that has nothing to do."""
    wait_until(lambda: not on_engine(server.llm, lambda engine: engine.has_unfinished_requests()), "the engine is idle")
    opened = open_page(server)
    opened.wait_for_selector("#connection[data-state=open]")
    yield opened
    opened.close()
    wait_until(lambda: not server.llm.is_paused, "the engine runs again when the page is closed")


@pytest.fixture
def fresh_server() -> Iterator[RunningServer]:
    """A server that has not taken a step."""
    with running_server(small_llm()) as running:
        yield running


@pytest.fixture
def locked_server() -> Iterator[RunningServer]:
    with running_server(small_llm(), ServerSettings(port=0, api_key="sesame")) as running:
        yield running
