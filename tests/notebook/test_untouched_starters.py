"""The notebooks of a learner who has written nothing yet: recorded runs, one notice, and no dead end."""

from pathlib import Path

import pytest

from tests.notebook.executed import NOTEBOOKS, errors, executed, notices

NEXT = "Next is Phase 1, task 1: clamp"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_shows_a_recorded_run_and_one_notice_names_the_next_task(path: Path) -> None:
    notebook = executed(path, "starter")
    assert errors(notebook) == []
    found = notices(notebook)
    assert sum(NEXT in notice for notice in found) == (path.stem != "00_tour")
    others = [notice for notice in found if NEXT not in notice]
    assert [notice for notice in others if "Nothing of yours to compare yet" not in notice] == (
        [notice for notice in others if path.stem == "07_tuning" and notice.startswith("Not recorded")]
    )
    assert len(others) <= 1
    assert "Recorded with the reference" in str(notebook.cells)
