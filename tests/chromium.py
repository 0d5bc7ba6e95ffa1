"""The one headless browser of a test run."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from course.browser.chromium import NoBrowserError, headless_chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium. Without one the test is skipped with a reason; with `REQUIRE_CHROMIUM` set it fails."""
    try:
        with headless_chromium() as running:
            yield running
    except NoBrowserError as error:
        (pytest.fail if os.environ.get("REQUIRE_CHROMIUM") else pytest.skip)(str(error))
