"""Run the code cells of a committed notebook in this process."""

import ast
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from tests.notebook.files import read

NOTEBOOKS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
OF_PHASES = [path for path in NOTEBOOKS if path.stem[:2] in ("01", "02", "03", "04", "05", "06")]
OF_ELECTIVES = [path for path in NOTEBOOKS if path.stem[:2] in ("10", "11")]


def notebook_of(phase: int) -> Path:
    """Return the notebook of a phase."""
    return next(path for path in OF_PHASES if path.stem.startswith(f"{phase:02d}_"))


def run_cells(path: Path, impl: str, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], list[object]]:
    """Return the names that the cells defined, and the value that each of them shows; graded tests are not run."""
    monkeypatch.setenv("LAB_IMPL", impl)
    monkeypatch.setattr(
        "course.notebook.phase_code.in_fresh_process", lambda function, *arguments, **how: function(*arguments)
    )
    monkeypatch.setattr("course.notebook.lab.Lab.test", lambda self, task=None: f"tests of task {task}")
    names: dict[str, Any] = {}
    shown = [run_cell(cell.source, names) for cell in read(path).cells if cell.cell_type == "code"]
    return names, shown


def run_cell(source: str, names: dict[str, Any]) -> object:
    """Run one cell; return the value of its last line if that is an expression, as Jupyter does."""
    body = ast.parse(source)
    last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
    exec(compile(body, "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return None
