"""After a restart, any cell may run first: it works, or names the cells to run before it."""

from pathlib import Path

import pytest
from nbclient import NotebookClient

from tests.notebook.cells import NOTEBOOKS
from tests.notebook.files import new_code_cell, read

WHAT_TO_DO = "Run all cells above first"


def errors_of(cells: list[str], path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    book = read(path)
    book.cells = [new_code_cell(source) for cell in cells for source in ("%reset -f", cell)]
    monkeypatch.setenv("LAB_IMPL", "solution")
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(book, timeout=300, allow_errors=True, resources=where).execute()
    failed = [(cell.source, out) for cell in book.cells for out in cell.outputs if out.output_type == "error"]
    return {source: "\n".join(error.traceback) for source, error in failed}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_cell_that_runs_first_works_or_says_what_to_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    errors = errors_of(cells, path, monkeypatch)
    assert errors
    assert [error for error in errors.values() if WHAT_TO_DO not in error] == []


def test_errors_that_no_other_cell_could_mend_are_python_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = "exec('def f(): return missing', other := {})\nother['f']()"
    cells = ["1 / 0", "def f():\n    x = x\nf()", elsewhere, "def f():\n    return missing\nf()"]
    errors = errors_of(cells, NOTEBOOKS[0], monkeypatch)
    assert [WHAT_TO_DO in error for error in errors.values()] == [False, False, False, True]
