"""What a jailed worker finds compiled: it starts over a hundred times for each submission and may write nothing."""

from importlib.util import cache_from_source
from pathlib import Path

import pytest

from classroom.judge import jail


def test_what_workers_see_is_compiled_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("classroom/worker/inside.py", "classroom/judge/judge.py", "course/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1")
    monkeypatch.setattr(jail, "CHECKOUT", tmp_path)
    jail.compile_course()
    compiled = {path for path in tmp_path.rglob("*.py") if Path(cache_from_source(str(path))).exists()}
    assert compiled == {tmp_path / "classroom/worker/inside.py", tmp_path / "course/__init__.py"}


def test_a_checkout_that_cannot_be_written_to_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "classroom/worker").mkdir(parents=True)
    (tmp_path / "classroom/worker/inside.py").write_text("x = 1")
    (tmp_path / "classroom/worker/__pycache__").touch()  # no folder: nothing can be put into it, not even by root
    monkeypatch.setattr(jail, "CHECKOUT", tmp_path)
    jail.compile_course()
    assert capsys.readouterr() == ("", "")
