"""The built page: the engine under Node, the page in Chromium, and none of the reference's source in either."""

import json
import re
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.upkeep.site.chat.speed import IN_NODE
from tests.chromium import Pages
from tests.tab import chats
from tests.tab.node_model import missing, node

SITE = CHECKOUT / "build/site"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def site() -> Path:
    if not (SITE / "chat/engine.zip").exists():
        missing(f"{SITE} has no chat/engine.zip: build it with `make site`")
    return SITE


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_twenty_chats_in_pyodide_have_the_tokens_of_torch(site: Path) -> None:
    script = Path(chats.__file__).read_text("utf-8") + '\nimport json\nprint(json.dumps(answers("solution:1-5")))\n'
    done = subprocess.run([node(), IN_NODE, site], input=script, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == chats.answers("solution:1-6")


def test_the_engine_has_no_source_of_the_reference_and_the_lab_no_engine(site: Path) -> None:
    with zipfile.ZipFile(site / "chat/engine.zip") as packed:
        names = [name for name in packed.namelist() if name.startswith("solutions/")]
        assert sorted(name[:16] for name in names) == [
            "solutions/__init",
            *(f"solutions/phase{n}" for n in range(1, 6)),
        ]
        assert {Path(name).suffix for name in packed.namelist()} <= {".pyc", ".css", ".js", ".json"}
        assert not [name for name in names if b"Phase 1, reference" in packed.read(name)]
    for wheel in (site / "pyodide").glob("*.whl"):
        assert not [name for name in zipfile.ZipFile(wheel).namelist() if "solutions" in name]


def open_page(pages: Pages, address: str, **options: Any) -> Any:
    page = pages.new_page(viewport={"width": 1280, "height": 800}, **options)
    page.route(re.compile(rf"^(?!{address}|blob:|data:)"), lambda route: route.abort())
    page.goto(f"{address}/chat/")
    return page


def test_two_chats_are_answered_one_is_stopped_and_a_long_prompt_is_refused_in_words(
    pages: Pages, address: str
) -> None:
    page = open_page(pages, address)
    page.wait_for_selector("#picture svg", timeout=120_000)  # before the user types anything
    assert "Mina and a kite" in page.inner_text("#panels")
    page.click("#add-chat")
    ask(page, "What is the capital of Norway?")
    page.wait_for_selector("text=The capital of Norway is Oslo.", timeout=60_000)
    page.click("#tab-1")
    page.press("#message", "Tab")
    page.click("#send")
    page.wait_for_selector("text=stopped", timeout=60_000)
    ask(page, "word " * 3000)
    page.wait_for_selector(".error", timeout=60_000)
    assert "tokens" in page.inner_text(".error p")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_without_motion_the_example_waits_for_enter(pages: Pages, address: str) -> None:
    page = open_page(pages, address, reduced_motion="reduce")
    page.wait_for_function("document.getElementById('message').value.startsWith('Tell me')", timeout=120_000)
    page.wait_for_timeout(500)
    assert page.query_selector("#picture svg") is None
    page.press("#message", "Enter")
    page.wait_for_selector("#picture svg")


def ask(page: Any, text: str) -> None:
    page.fill("#message", text)
    page.press("#message", "Enter")


def test_what_is_missing_has_words_in_the_page(browser: Any, address: str) -> None:
    for name in ("model.safetensors", "engine.zip"):
        page = browser.new_page()
        page.context.route(f"**/{name}", lambda route: route.fulfill(status=404, body=""))
        page.goto(f"{address}/chat/")
        page.wait_for_selector("#death:visible", timeout=120_000)
        assert f"{name} cannot be read" in page.inner_text("#death")
        page.close()
    page = browser.new_page()
    page.add_init_script("delete globalThis.WebAssembly")
    page.goto(f"{address}/chat/")
    page.wait_for_selector("#death:visible")
    assert "too old" in page.inner_text("#death")
    page.close()
