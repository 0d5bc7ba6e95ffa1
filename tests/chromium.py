"""The single headless browser used in a test run, and the pages that tests open in it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.pictures.browser.chromium import NoBrowserError, headless_chromium

AXE = CHECKOUT / "build/site-cache/axe.min.js"
MEASURES = Path(__file__).with_name("measures.js").read_text(encoding="utf-8")


def measure(page: Any, name: str, given: object = None) -> Any:
    """Call a `measures.js` function in a page and return its result."""
    return page.evaluate(f"(given) => {{ {MEASURES} return measures.{name}(given); }}", given)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium.

    Without a browser, the test is skipped with a reason, or fails if `REQUIRE_CHROMIUM` is set.
    """
    try:
        with headless_chromium() as running:
            yield running
    except NoBrowserError as error:
        (pytest.fail if os.environ.get("REQUIRE_CHROMIUM") else pytest.skip)(str(error))


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's script. If it was not fetched, the test is skipped, or fails if `REQUIRE_SITE` is set."""
    if not AXE.is_file():
        (pytest.fail if os.environ.get("REQUIRE_SITE") else pytest.skip)(
            "no axe-core here: mini_vllm_labs/upkeep/install_axe.sh fetches it"
        )
    return AXE.read_text(encoding="utf-8")


class Pages:
    """Opens pages in a browser, and stores the errors and warnings that they report."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.opened: list[Any] = []
        self.problems: list[str] = []

    def new_page(self, *, expected: str = "", **options: Any) -> Any:
        """Open a page with the given browser context options. Log entries that contain `expected` do not count as
        errors."""
        page = self.browser.new_page(**options)
        self.opened.append(page)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self._note(message, expected))
        return page

    def _note(self, message: Any, expected: str) -> None:
        if message.type in ("error", "warning") and not (expected and expected in message.text):
            self.problems.append(message.text)


@pytest.fixture
def pages(browser: Any) -> Iterator[Pages]:
    """Pages that are closed after the test; the test fails if a page reported an error or a warning."""
    opened = Pages(browser)
    yield opened
    for page in opened.opened:
        page.close()
    assert not opened.problems, opened.problems
