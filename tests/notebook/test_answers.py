"""The folded answers of the notebooks match the output of their cells; no cell ends in an error or a notice."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.notebook.files import load, read

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
MISSING = re.compile(r"This needs |The engine did not finish")
EXPECTED = load("answers.yaml")


@pytest.mark.parametrize("name", EXPECTED)
def test_the_answers_match_the_output_of_the_cells(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "solution")
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOKS.parent))
    notebook = read(NOTEBOOKS / f"{name}.ipynb")
    for cell in notebook.cells:
        for asked, written in EXPECTED[name].get("written", {}).items():
            cell.source = cell.source.replace(asked, written)
    NotebookClient(notebook, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    shown = dict(outputs(notebook))
    assert {source.partition("\n")[0]: text for source, text in shown.items() if MISSING.search(text)} == {}
    for begins, patterns in EXPECTED[name]["shown"].items():
        texts = [text for source, text in shown.items() if source.startswith(begins)]
        assert len(texts) == 1, begins
        for pattern in patterns:
            assert re.search(pattern, texts[0]), f"{begins}: no {pattern!r} in\n{texts[0]}"


def outputs(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    """Yield for each code cell its source and its output as text."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            yield (
                cell.source,
                "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs),
            )
