"""The notebooks of a learner who has written nothing yet: every cell runs, and names the next task."""

from pathlib import Path

import pytest

from tests.notebook.executed import NOTEBOOKS, errors, executed, notices

PHASES = [f"{phase:02}" for phase in range(1, 7)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_a_phase_that_is_missing_is_named(path: Path) -> None:
    notebook = executed(path, "starter")
    assert errors(notebook) == []
    if path.stem[:2] in PHASES:
        found = notices(notebook)
        assert found
        assert all("Phase 1, task 1: clamp" in notice or "No reference here" in notice for notice in found), found
