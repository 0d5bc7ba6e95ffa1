"""Files that Canvas and Moodle import: their columns, a student's own id, and no text from a submission."""

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mini_vllm_labs.classroom.export.gradebooks import Gradebooks, Roster, as_canvas, as_moodle, read_roster
from mini_vllm_labs.classroom.judge.report import missed_table
from mini_vllm_labs.classroom.judge.results import ClassResults
from mini_vllm_labs.cli.main import app
from tests.grading.checkout import solution
from tests.judge.summaries import HOSTILE, phase, small_class, submission

SIS = Roster(
    "SIS User ID", {"ada": "s-007", "bob": "0042", **{name: f"s-{index}" for index, name in enumerate(HOSTILE)}}
)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_canvas_finds_its_columns() -> None:
    header, maxima, *lines = rows(as_canvas(small_class(), SIS))
    # as read by Canvas's lib/gradebook_importer.rb
    assert "Student" in header[0]
    assert "ID" in header[1]
    assert header[2:5] == ["SIS User ID", "SIS Login ID", "Section"]
    assert header[5:] == ["mini-vLLM phase 1: scheduler step", "mini-vLLM phase 3: preemption"]
    assert "Points Possible" in maxima[0]
    assert maxima[5:] == ["40", "40"]
    found = {line[2]: line for line in lines}
    assert found["s-007"] == ["s-007", "", "s-007", "", "", "40", "0"]
    assert found["0042"][5:] == ["0", "10"]
    assert len(lines) == 8
    assert {len(line) for line in [header, maxima, *lines]} == {7}


def test_moodle_gets_the_id_and_the_points() -> None:
    header, *lines = rows(as_moodle(small_class(), Roster("ID number", {"ada": "7", "carol": "9"})))
    assert header == ["ID number", "mini-vLLM phase 1: scheduler step", "mini-vLLM phase 3: preemption"]
    assert lines == [["7", "40", "0"]]
    policies = ClassResults("s", 4, True, [submission("ada", phase(13, 1.0))])
    assert rows(as_moodle(policies, Roster("ID", {"ada": "7"}))) == [
        ["ID", "mini-vLLM phase 13: scheduling policies"],
        ["7", "20"],
    ]


def test_what_could_not_be_read_has_no_points_rather_than_none(tmp_path: Path) -> None:
    found = ClassResults(
        "s", 4, True, [submission("ada", phase(1, file=False), error="no zip"), submission("bob", phase(1, 1.0))]
    )
    roster = Roster("ID", {"ada": "7", "bob": "9"})
    assert [line[0] for line in rows(as_moodle(found, roster))] == ["ID", "9"]
    assert Gradebooks(roster, None, tmp_path / "m.csv").left_out(found) == ["ada: not read"]


def test_nothing_that_a_learner_wrote_reaches_a_gradebook() -> None:
    for text in (as_canvas(small_class(), SIS), as_moodle(small_class(), SIS)):
        assert not any(name in text for name in HOSTILE if name != "Points Possible")
        assert not [cell for row in rows(text) for cell in row if cell.startswith(("=", "+", "-", "@"))]
    assert sum("Points Possible" in row[0] for row in rows(as_canvas(small_class(), SIS))) == 1


@pytest.mark.parametrize(
    "text", ["submission,ID\nada,12\n\n", "\ufeffSubmission;ID\n ada ; 12\n", 'submission,ID\r\n"ada",12']
)
def test_a_roster_is_read_as_spreadsheets_save_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "roster.csv").write_text(text, encoding="utf-8")
    assert read_roster(tmp_path / "roster.csv") == Roster("ID", {"ada": "12"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must have two columns"),
        (b"name,ID\nada,12\n", "must have two columns"),
        (b"submission,ID\nada\n", "entry 2: an entry must be a name and an id"),
        (b"submission,ID\nada,1\nada,2\n", "entry 3: 'ada' or '2' appears twice"),
        (b"submission,ID\nada,1\nbob,1\n", "appears twice"),
        (b"submission,ID\nada,=1+1\n", "as a formula"),
        (b"submission,ID\nada,1\x1b2\n", "as a formula"),
        (b"submission,ID\nad\xff,1\n", "cannot be read as UTF-8"),
    ],
)
def test_a_roster_that_is_none_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "roster.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        read_roster(tmp_path / "roster.csv")


def test_the_command_writes_all_of_it(tmp_path: Path) -> None:
    for name in ("ada", "<b>eve"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "phase1.py").write_text(solution(1), encoding="utf-8")
    (tmp_path / "roster.csv").write_text("submission,SIS Login ID\nada,ada01\n")
    files = {name: str(tmp_path / f"out.{name}") for name in ("canvas", "moodle")}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    judged = ["judge", str(tmp_path / "ada"), str(tmp_path / "<b>eve"), *"--no-jail --phase 1 --situations 1".split()]
    told = CliRunner().invoke(app, [*judged, *options, "--roster", str(tmp_path / "roster.csv")])
    assert told.exit_code == 0, told.output
    assert "<b>eve: not in the roster, so left out" in told.output
    assert rows(Path(files["canvas"]).read_text())[2] == ["ada01", "", "", "ada01", "", "40"]
    assert rows(Path(files["moodle"]).read_text())[1:] == [["ada01", "40"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--canvas", "x.csv"], "need student ids"),
        (["--roster", "r.csv"], "writes nothing"),
        (["--roster", "r.csv", "--canvas", "x.csv"], "'ID number', but Canvas expects ID, SIS User ID, SIS Login ID"),
        (["--csv", "."], "is a folder"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_grading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.csv").write_text("submission,ID number\nada,1\n")
    told = CliRunner().invoke(app, ["judge", ".", "--no-jail", *options])
    assert told.exit_code == 2
    assert message in " ".join(told.output.split())


def test_what_a_class_missed_most_is_a_table_without_names() -> None:
    shown = io.StringIO()
    Console(file=shown, width=90).print(missed_table(small_class()))
    lines = [" ".join(line.split()) for line in shown.getvalue().splitlines()]
    assert lines[3] == "3 which request to preempt 64% 6 of 7"
    assert not [name for name in HOSTILE if name in shown.getvalue()]
    assert missed_table(ClassResults("s", 4, True, [submission("ada", phase(1, 1.0))] * 2)) is None
