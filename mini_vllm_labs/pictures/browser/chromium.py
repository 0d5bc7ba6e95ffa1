"""Finds and starts the system's Chromium, once per process because a second one would not start."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mini_vllm.environment import CHROMIUM
from mini_vllm.installation import pip_install

NAMES = ("chromium", "chromium-browser", "google-chrome")
# No sandbox, because this may run as root; the other flags keep the browser off the network.
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


class NoBrowserError(ValueError):
    """Raised if a browser cannot start, with the name of the missing component."""


def find_chromium() -> str | None:
    """Return the path to Chromium: `$CHROMIUM`, or the executable on `PATH`."""
    return CHROMIUM.get() or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def headless_chromium() -> Iterator[Any]:
    """Start a browser, and close it when the `with` block ends. Raises `NoBrowserError` if Chromium or playwright is
    missing."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        install = pip_install("playwright")
        raise NoBrowserError(f"playwright is not installed: {install} (browsers need not be downloaded)") from error
    where = find_chromium()
    if where is None:
        raise NoBrowserError("Chromium is missing: install your system's package, or set CHROMIUM=/path/to/it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=where, args=FLAGS.split())
        try:
            yield browser
        finally:
            browser.close()
