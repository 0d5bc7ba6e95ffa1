"""The notebooks of a learner who has written nothing yet: recorded runs, one notice, and no dead end."""

import os
from pathlib import Path

import pytest
from nbclient import NotebookClient

from mini_vllm_labs.classroom.student_edition.edition import compose, write
from tests.edition.conftest import without_solutions
from tests.notebook.cells import NOTEBOOKS
from tests.notebook.files import new_code_cell, read

NEXT = "Next is Phase 1, task 1: clamp"
WHERE = "import mini_vllm\nprint(mini_vllm.__file__)"


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("student").resolve() / "edition"
    write(compose(), folder)
    return folder


def test_a_student_edition_has_every_notebook(student: Path) -> None:
    assert {path.name for path in (student / "notebooks").glob("*.ipynb")} == {path.name for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_shows_a_recorded_run_and_one_notice_names_the_next_task(
    student: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = read(student / "notebooks" / path.name)
    notebook.cells.append(new_code_cell(WHERE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(student), without_solutions()]))
    where = {"metadata": {"path": str(student / "notebooks")}}
    NotebookClient(notebook, timeout=300, allow_errors=True, resources=where).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    imported = outputs.pop().text.strip()
    assert Path(imported).is_relative_to(student), f"the kernel imported {imported}"
    assert [f"{each.ename}: {each.evalue}" for each in outputs if each.output_type == "error"] == []
    shown = [output.get("data", {}) for output in outputs]
    found = [data["text/plain"] for data in shown if 'role="note"' in data.get("text/html", "")]
    assert sum(NEXT in notice for notice in found) == (path.stem != "00_tour")
    others = [notice for notice in found if NEXT not in notice and "Nothing of yours to compare yet" not in notice]
    assert len(others) <= (path.stem == "07_tuning")
    assert all(notice.startswith("Not recorded") for notice in others)
    assert "Recorded with the reference" in str(notebook.cells)
