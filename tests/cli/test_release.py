"""`mini-vllm release`: its output. Its files are tested in `tests/course/test_release.py`."""

from pathlib import Path

import pytest

from tests.cli.conftest import Commands


def test_the_command_reports_what_it_wrote(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    edition = {"AGENTS.md": b"rules", "labs/a.py": b"x", "labs/b.py": b"y"}
    monkeypatch.setattr("classroom.cli.release.untracked_code", list)
    monkeypatch.setattr("classroom.cli.release.compose", lambda: edition)
    shown = mini_vllm("release", tmp_path / "new").output
    assert "3 files" in shown
    assert "AGENTS.md, labs/ (2)" in shown
    assert (tmp_path / "new" / "AGENTS.md").is_file()
    assert "not empty" in mini_vllm("release", tmp_path / "new", exit_code=2).stderr
    monkeypatch.setattr("classroom.cli.release.untracked_code", lambda: ["labs/mine.py"])
    assert "labs/mine.py" in mini_vllm("release", tmp_path / "other", exit_code=2).stderr
