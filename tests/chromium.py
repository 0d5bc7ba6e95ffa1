"""The one headless browser of a test run: a second one in the same process would not start."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
# No sandbox, because tests may run as root; the rest keeps the browser off the network.
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


def chromium() -> str | None:
    """Return where Chromium is: `$CHROMIUM`, or what the system has."""
    return os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium. Without one, or without playwright, the test is skipped and says why."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    where = chromium()
    if where is None:
        pytest.skip("no Chromium here: install your system's package, or set CHROMIUM=/path/to/it")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=where, args=FLAGS.split())
        yield running
        running.close()
