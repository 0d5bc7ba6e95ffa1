"""What all tests share: no lineup from the environment, and Hypothesis settings that repeat themselves."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.chromium import browser

__all__ = ["browser"]

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("dev", deadline=None, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _no_lineup_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove `LAB_IMPL`: a test names its lineup, and the shell's setting must not matter."""
    monkeypatch.delenv("LAB_IMPL", raising=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a test that has no browser in a thread of its own if the main thread has a loop that runs.

    Playwright leaves one there from the first browser test on, and `asyncio.run` refuses to start beside it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return None
    if "browser" in pyfuncitem.fixturenames:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    with ThreadPoolExecutor(1) as thread:
        thread.submit(pyfuncitem.obj, **arguments).result()
    return True
