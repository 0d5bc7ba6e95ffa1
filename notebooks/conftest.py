"""Runs notebooks as tests (`pytest -p nbval.plugin --nbval-lax notebooks`) on this checkout's code, with the lineup
from the test report."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from nbformat.v4 import new_output
from nbval.plugin import IPyNbCell, NbCellError

from mini_vllm.assembly.lineup import CHECKOUT, lineup_from_env

NOTICE = 'role="note"'
TEXTS = Path(__file__).with_name("outputs.yaml")
COMPARE = "from mini_vllm_labs.upkeep.recorded_runs import compare_runs\ncompare_runs({!r})\n"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Compare each run with its record, and the output of some cells as text, if all code is the reference's."""
    texts = yaml.safe_load(TEXTS.read_text(encoding="utf-8"))
    cells = [item for item in items if isinstance(item, IPyNbCell) and "starter" not in str(lineup_from_env())]
    for item in cells:
        if item.cell_num == 0:
            item.cell.source = COMPARE.format(item.path.stem) + item.cell.source
        if item.cell.get("id") in texts:
            item.options["check"] = True
            item.cell.outputs = [new_output("execute_result", {"text/plain": texts[item.cell.id].strip()})]
            item.cell.execution_count = 1  # nbval rejects outputs from a cell that never ran
            item.parent.skip_compare = (*item.parent.skip_compare, "text/html")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Start the kernel with the lineup from the test report; it imports this checkout, wherever the package is
    installed."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LAB_IMPL", str(lineup_from_env()))
        environment.setenv("PYTHONPATH", str(CHECKOUT), prepend=os.pathsep)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a cell that reports missing work, because here all code is the reference's."""
    yield
    if isinstance(item, IPyNbCell) and "starter" not in str(lineup_from_env()):
        pages = [output.get("data", {}).get("text/html", "") for output in item.test_outputs or []]
        if any(NOTICE in page for page in pages):
            raise NbCellError(item.cell_num, "The cell shows a Notice instead of a result", item.cell.source)
