"""Runs the code cells of a committed notebook in this process."""

import ast
import contextlib
import io
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.notebook.predictions import Revealed
from mini_vllm_labs.notebook.records import FOLDER, read_lines
from mini_vllm_labs.pictures.prediction.widgets import Deck
from mini_vllm_labs.pictures.widgets import Player
from mini_vllm_labs.upkeep.recorded_runs import in_this_process, noted
from tests.notebook.files import read

NOTEBOOKS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))


class Shown(NamedTuple):
    """A cell that has run: its source, the value of its last line, and its output as text."""

    source: str
    value: Any
    text: str


def text_of(cell: object) -> str:
    """Return a cell's value as text; for a film, the text of all its steps."""
    value: Any = cell.shown if isinstance(cell, Revealed) else cell
    if isinstance(value, Player):
        return "\n".join(picture.text_alternative for picture in value.pictures.pictures)
    if isinstance(value, Deck):
        return value.words()
    bundle = value._repr_mimebundle_() if hasattr(value, "_repr_mimebundle_") else {"text/plain": ""}
    return str((bundle[0] if isinstance(bundle, tuple) else bundle)["text/plain"])


@cache
def reference_run(path: Path) -> tuple[dict[str, Any], list[Shown], dict[str, str]]:
    """Return what `run_cells` returns for the reference, and the records of the cells' runs, for several tests."""
    lines: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patched:
        return *run_cells(path, "solution", patched, note=lines.__setitem__), lines


def run_cells(
    path: Path,
    impl: str,
    monkeypatch: pytest.MonkeyPatch,
    written: Mapping[str, str] | None = None,
    note: Callable[[str, str], object] = lambda key, line: None,
) -> tuple[dict[str, Any], list[Shown]]:
    """Return the names that the cells defined, and the output of each cell; graded tests are not run.

    `written` contains what a learner writes in the cells: a piece of code, and its replacement. `note` receives the key
    and the record of each run. A run that has a record is not repeated here, because a kernel performs and compares it
    (`notebooks/conftest.py`).
    """
    monkeypatch.setenv("LAB_IMPL", impl)
    run = noted(in_this_process(read_lines(FOLDER / f"{path.stem}.xz")), note)
    monkeypatch.setattr("mini_vllm_labs.notebook.phase_code.in_fresh_process", run)
    monkeypatch.setattr("mini_vllm_labs.notebook.lab.Lab.test", lambda self, task=None: f"tests of task {task}")
    names: dict[str, Any] = {}
    shown = []
    for source in [cell.source for cell in read(path).cells if cell.cell_type == "code"]:
        code = source
        for asked, answer in (written or {}).items():
            code = code.replace(asked, answer)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            value = run_cell(code, names)
        shown.append(Shown(source, value, printed.getvalue() + text_of(value)))
    return names, shown


def run_cell(source: str, names: dict[str, Any]) -> object:
    """Run one cell; return the value of its last line if that is an expression, as Jupyter does."""
    body = ast.parse(source)
    last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
    exec(compile(body, "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return None
