"""Makes every report name the code that was tested, even if no graded test runs."""

from pathlib import Path

import pytest

from mini_vllm_labs.grading.whose_code import say_whose_code


def pytest_sessionstart(session: pytest.Session) -> None:
    say_whose_code(session.config, Path(__file__).parent)
