"""An interrupted cell shows a sentence, and none of the course's code."""

import os
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_notebook

from mini_vllm.assembly.lineup import CHECKOUT
from tests.notebook.files import new_code_cell

INTERRUPT = "threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()"
CELLS = (
    "import os, signal, threading, time\nfrom course.fresh import process\nfrom course.notebook import Lab",
    f"{INTERRUPT}\nprocess.in_fresh_process(time.sleep, 60)",
    f"{INTERRUPT}\nLab(6, 'solution').test()",
)


@pytest.mark.skipif(os.name != "posix", reason="the cells interrupt themselves by a signal")
def test_an_interrupted_cell_shows_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT), prepend=os.pathsep)
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, timeout=100, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}).execute()
    [imported, run, tests] = [cell.outputs for cell in notebook.cells]
    assert imported == []
    assert [output.traceback for output in run] == [["Interrupted: the run was stopped, without a result."]]
    assert [output.traceback for output in tests] == [["Interrupted: the tests were stopped, without a result."]]
