"""Notebooks as tests, `pytest -p nbval.plugin --nbval-lax notebooks`: this checkout's code, as the report says."""

import os
from collections.abc import Iterator

import pytest
from nbval.plugin import IPyNbCell, NbCellError

from mini_vllm.assembly.lineup import CHECKOUT, lineup_from_env

NOTICE = 'role="note"'


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Start the kernel with the lineup of the report; it imports this checkout, wherever the package is installed."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LAB_IMPL", str(lineup_from_env()))
        environment.setenv("PYTHONPATH", str(CHECKOUT), prepend=os.pathsep)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Where all code is the reference's, no cell has a reason to say that something is missing."""
    yield
    if isinstance(item, IPyNbCell) and "starter" not in str(lineup_from_env()):
        pages = [output.get("data", {}).get("text/html", "") for output in item.test_outputs or []]
        if any(NOTICE in page for page in pages):
            raise NbCellError(item.cell_num, "The cell shows a Notice in place of a result", item.cell.source)
