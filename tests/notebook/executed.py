"""A notebook of the course, run from its first cell to its last as `make lab` would run it."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from mini_vllm.assembly.lineup import CHECKOUT
from tests.notebook.files import new_code_cell, read

NOTEBOOKS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
WHERE = "import mini_vllm\nprint(mini_vllm.__file__)"


def executed(path: Path, lineup: str) -> nbformat.NotebookNode:
    """Return the notebook with its outputs, errors among them, run beside its own file with `LAB_IMPL=lineup`."""
    notebook = read(path)
    notebook.cells.append(new_code_cell(WHERE))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LAB_IMPL", lineup)
        environment.setenv("PYTHONPATH", str(CHECKOUT), prepend=os.pathsep)
        NotebookClient(
            notebook, timeout=300, allow_errors=True, resources={"metadata": {"path": str(path.parent)}}
        ).execute()
    where = notebook.cells.pop().outputs[0].text.strip()
    assert Path(where).is_relative_to(CHECKOUT), f"the kernel imported {where}"
    return notebook


def errors(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the exceptions in which cells ended."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [f"{output.ename}: {output.evalue}" for output in outputs if output.output_type == "error"]


def notices(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the notices shown instead of results."""
    outputs = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    return [data["text/plain"] for data in outputs if 'role="note"' in data.get("text/html", "")]
