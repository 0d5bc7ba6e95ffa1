"""Long commands report on stderr what they are doing and how much is left."""

import io
import json
import time
from contextlib import nullcontext

import pytest
from rich.console import Console

from mini_vllm_labs.cli import grade
from mini_vllm_labs.grading.plan import load_whole_plan
from mini_vllm_labs.pictures.terminal import progress
from mini_vllm_labs.pictures.terminal.progress import ProgressLines, counted, reported
from tests.cli.conftest import Commands


def test_a_line_names_the_part_its_share_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    lines = ProgressLines("Loading")
    assert lines.line() == "[0 s] Loading"
    now = 110.0
    lines("Working", 0, 40)
    assert lines.line() == "[10 s] Working: 0 of 40"
    now = 130.0
    lines("Working", 10, 40)
    assert lines.line() == "[30 s] Working: 10 of 40, about 60 s left"


def test_the_time_left_of_a_grade_is_that_of_all_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[tuple[object, ...]]()
    monkeypatch.setattr(grade, "reported", lambda *_: nullcontext(lambda *report: said.append(report)))
    one, two = load_whole_plan()[:2]
    with grade.progress(Console(file=io.StringIO()), [one, two]) as say:
        for number, done in ((1, 4), (2, 3), (1, 5)):
            say(number, done, "tests")
    assert said == [("Grading tests", done, len(one.tests) + len(two.tests)) for done in (4, 7, 8)]


def test_lines_come_while_the_work_reports_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(progress, "PAUSE", 0.01)
    with reported("Loading"):
        time.sleep(0.5)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("Loading") >= 2


def test_short_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with reported("Loading") as report:
        assert list(counted([7, 8], "Working", report)) == [7, 8]
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with reported("Loading", console) as report:
        report("Working", 3, 4)
        time.sleep(0.3)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Working" in shown
    assert "3 of 4" in shown


def test_json_stays_json(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(progress, "PAUSE", 0.01)
    result = mini_vllm("simulate", "--requests", 200, "--json")
    assert "Simulating requests" in result.stderr
    assert json.loads(result.stdout)["num_steps"] > 0
