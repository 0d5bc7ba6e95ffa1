"""For tests that call `asyncio.run`: import the hook into the `conftest.py` of their folder."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test without a browser in a new thread if the main thread has a running loop.

    From the first browser test on, Playwright leaves a loop running in the main thread, and `asyncio.run` then refuses
    to start.
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
