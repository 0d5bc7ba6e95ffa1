"""Points for vivas and for learners' tests reach the tables for a class."""

import csv
import io
import json
from pathlib import Path

import pytest

from mini_vllm_labs.classroom.export.gradebooks import Roster, as_canvas, as_moodle
from mini_vllm_labs.classroom.export.gradescope import as_gradescope
from mini_vllm_labs.classroom.export.own_tests import OwnTests
from mini_vllm_labs.classroom.export.vivas import Vivas
from mini_vllm_labs.classroom.judge.report import as_csv, file_name
from mini_vllm_labs.classroom.judge.results import ClassResults
from mini_vllm_labs.viva.sheet import Sheet, VivaQuestion
from tests.cli.conftest import Commands
from tests.judge.summaries import HOSTILE, phase, result, small_class, submission

OURS = {"1": "0" * 64}
ROSTER = Roster("SIS User ID", {"ada": "s-1", "bob": "s-2"})


def sheet(given: list[int | None], digests: dict[str, str]) -> str:
    questions = [VivaQuestion("value", f"question {number}", number, str(number)) for number in range(8)]
    return Sheet(1, 8, [], digests, [], questions, given, [1.0] * len(given)).as_json()


@pytest.fixture
def graded(tmp_path: Path) -> tuple[ClassResults, list[str], Vivas]:
    sheets = {
        "ada": sheet([0, 1, 2, None, 0], OURS | {"2": "another phase"}),
        "bob": sheet([0], {"1": "9" * 64}),
        file_name(HOSTILE[0]): sheet([], OURS),
        "carol": sheet([0], OURS),
    }
    for name, text in sheets.items():
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    vivas = Vivas.read(tmp_path)
    return *vivas.added_to(small_class()), vivas


def test_each_table_has_a_column(graded: tuple[ClassResults, list[str], Vivas]) -> None:
    results, notes, _ = graded
    assert results.vivas == {"ada": 3}
    assert results.as_json()["vivas"] == {"ada": 3}
    rows = {row["submission"]: row for row in csv.DictReader(io.StringIO(as_csv(results)))}
    assert (rows["ada"]["viva"], rows["bob"]["viva"]) == ("3", "")
    head, most, *lines = csv.reader(io.StringIO(as_canvas(results, ROSTER), newline=""))
    assert (head[-1], most[-1], {line[0]: line[-1] for line in lines}) == (
        "mini-vLLM viva",
        "8",
        {"s-1": "3", "s-2": ""},
    )
    head, *lines = csv.reader(io.StringIO(as_moodle(results, ROSTER), newline=""))
    assert (head[-1], lines[0]) == ("mini-vLLM viva", ["s-1", "40", "0", "3"])
    assert sorted(notes) == sorted(
        [
            "bob: the viva was about other files than those handed in",
            f"{HOSTILE[0]}: the sheet of the viva has no answers",
            "carol: a viva, but no submission",
        ]
    )
    assert "viva" not in as_csv(small_class()), "only if the teacher asks for it"


def test_gradescope_finds_the_viva_of_exactly_these_files(graded: tuple[ClassResults, list[str], Vivas]) -> None:
    _, _, vivas = graded
    kept, same = vivas.by_digests(), result(submission("submission", phase(1, 1.0)))
    both = as_gradescope({**same, "digests": OURS | {"2": "another phase"}}, vivas=kept)
    [test] = [one for one in both["tests"] if one["name"] == "Viva"]
    assert (test["score"], test["max_score"], both["score"]) == (3, 8, 43)
    without = as_gradescope({**same, "digests": {"1": "another file"}}, vivas=kept)
    assert without["score"] == 40
    assert "ada" not in str(kept), "Gradescope gets no names"


@pytest.mark.parametrize(
    ("option", "name", "text", "words"),
    [
        ("--viva", "x.txt", "", "has no sheets"),
        ("--viva", "x.json", "{}", "not a sheet from"),
        ("--tests", "x.txt", "", "has no results"),
        ("--tests", "x.json", '{"version": 1, "own tests": {"3": {"points": 11}}}', "not a result of"),
    ],
)
def test_a_folder_without_sheets_is_refused_before_grading(
    mini_vllm: Commands, tmp_path: Path, option: str, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    shown = mini_vllm("judge", tmp_path, "--no-jail", option, tmp_path, exit_code=2).output
    assert words in " ".join(shown.split())


def test_points_of_learners_tests_are_a_column_next_to_the_viva(
    graded: tuple[ClassResults, list[str], Vivas], tmp_path: Path
) -> None:
    (folder := tmp_path / "tests").mkdir()
    for name, points in {"ada": {"1": 7, "3": 4}, "carol": {"1": 9}}.items():
        phases = {number: {"points": one} for number, one in points.items()}
        (folder / f"{name}.json").write_text(json.dumps({"version": 1, "own tests": phases}), encoding="utf-8")
    results, notes = OwnTests.read(folder).added_to(graded[0])
    assert notes == ["carol: tests, but no submission"]
    rows = {row["submission"]: row for row in csv.DictReader(io.StringIO(as_csv(results)))}
    assert [rows["ada"][name] for name in ("viva", "tests")] == ["3", "11"]
    assert rows["bob"]["tests"] == ""
    head, most, *_ = csv.reader(io.StringIO(as_canvas(results, ROSTER), newline=""))
    assert (head[-2:], most[-2:]) == (["mini-vLLM viva", "mini-vLLM tests"], ["8", "20"])
    assert list(csv.reader(io.StringIO(as_moodle(results, ROSTER), newline="")))[1][-1] == "11"
    assert results.as_json()["tests"] == {"ada": 11}
