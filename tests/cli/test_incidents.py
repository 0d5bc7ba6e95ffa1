"""`mini-vllm incidents`: it asks until it gets a knob, counts points, and ends with the input."""

import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from cli import incidents as command
from cli.main import app
from course.simulator.incidents import incidents
from mini_vllm import parse_lineup
from tests.cli.conftest import Commands, mini_vllm

__all__ = ["mini_vllm"]


@pytest.fixture(autouse=True)
def two_of_the_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "incidents", lambda seed: incidents(seed)[:2])
    monkeypatch.setenv("COLUMNS", "100")


def play(*lines: str) -> str:
    arguments = ["incidents", "--seed", "3", "--lineup", "solution:1-5"]
    done = CliRunner().invoke(app, arguments, input="".join(f"{line}\n" for line in lines))
    assert done.exit_code == 0, done.output
    return done.stdout


def right_knobs() -> list[int]:
    lineup = replace(parse_lineup("solution:1-5"), runner="absent")
    return [incident.run(lineup).best + 1 for incident in incidents(3)[:2]]


def test_the_right_knobs_earn_all_points() -> None:
    shown = play(*map(str, right_knobs()))
    assert shown.count(": 10 of 10 points") == 2
    assert shown.endswith("20 of 20 points in 2 of 2 incidents, seed 3.\n")
    assert "1 of 2 · " in shown
    assert re.search(r"03:\d\d, .* is \d.* requests a second of", shown)
    assert shown.count("as it was") == 2


def test_what_is_no_knob_is_asked_again() -> None:
    shown = play("five", "5", "0", "-1", "", "1.0", str(right_knobs()[0]))
    for typed in ("'five'", "'5'", "'0'", "'-1'", "''", "'1.0'"):
        assert f"a knob is a number from 1 to 4, got {typed}" in shown
    assert shown.endswith("10 of 10 points in 1 of 2 incidents, seed 3.\n"), "the input has ended"


def test_quit_and_an_empty_input_end_the_game() -> None:
    assert play("/quit").endswith("0 of 0 points in 0 of 2 incidents, seed 3.\n")
    assert play().endswith("0 of 0 points in 0 of 2 incidents, seed 3.\n")


def test_answers_asks_nothing(mini_vllm: Commands) -> None:
    shown = mini_vllm("incidents", "--answers", "--lineup", "solution:1-5").stdout
    assert shown.count("\nKnob ") == 2
    assert "points" not in shown
