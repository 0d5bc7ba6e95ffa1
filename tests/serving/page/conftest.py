"""A server with the page, on the fake model, and pages of it in Chromium."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mini_vllm.config import EngineConfig
from serving.server import RunningServer
from tests.chromium import Pages
from tests.serving.running import PATIENCE, call, serving, wait_until

SMALL = EngineConfig(max_num_seqs=4, max_num_batched_tokens=128, num_gpu_blocks=121, check_invariants=True)


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    with serving(SMALL) as running:
        yield running


@pytest.fixture
def open_page(pages: Pages) -> Callable[..., Any]:
    """Opens pages of a server. What they log with the words `expected` is no error."""

    def open_one(server: RunningServer, **options: Any) -> Any:
        page = pages.new_page(viewport={"width": 1280, "height": 800}, **options)
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(server.address)
        return page

    return open_one


@pytest.fixture
def page(server: RunningServer, open_page: Callable[..., Any]) -> Iterator[Any]:
    """A page on a server that has nothing to do."""
    wait_until(lambda: not call(server.llm, lambda engine: engine.has_unfinished_requests()), "the engine is idle")
    opened = open_page(server)
    opened.wait_for_selector("#connection[data-state=open]")
    yield opened
    opened.close()
    wait_until(lambda: not server.llm.is_paused, "the engine runs again when the page is closed")


@pytest.fixture
def fresh_server() -> Iterator[RunningServer]:
    """A server that has not taken a step."""
    with serving(SMALL) as running:
        yield running


@pytest.fixture
def locked_server() -> Iterator[RunningServer]:
    with serving(SMALL, api_key="sesame") as running:
        yield running
