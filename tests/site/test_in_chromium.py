"""What the lab's page says in a browser that lacks something."""

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_without_webassembly_the_page_says_what_to_do(browser: Any, address: str) -> None:
    with contextlib.closing(browser.new_context()) as context:
        context.add_init_script("delete window.WebAssembly")
        page = context.new_page()
        page.goto(f"{address}/lab/lab/index.html", wait_until="commit")
        assert "needs WebAssembly" in page.inner_text("#mini-vllm-stop")


def test_without_storage_the_page_warns(browser: Any, address: str) -> None:
    with contextlib.closing(browser.new_context()) as context:
        context.add_init_script("IDBFactory.prototype.open = () => { throw new Error('none'); }")
        page = context.new_page()
        page.goto(f"{address}/lab/lab/index.html", wait_until="commit")
        assert "keeps nothing" in page.inner_text("#mini-vllm-notice")
