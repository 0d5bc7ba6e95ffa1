"""A class run: no submission stops or spoils the others, and no finished result is lost."""

import json
import re
import resource
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mini_vllm_labs.classroom.judge import grader as grading
from mini_vllm_labs.classroom.judge.class_run import (
    ClassRun,
    GraderError,
    GradingProcess,
    Record,
    RecordedResult,
    RecordError,
    recorded_settings,
)
from mini_vllm_labs.classroom.judge.results import SubmissionGrade
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import HandedIn, read_submission
from mini_vllm_labs.cli.main import app
from tests.grading.checkout import solution
from tests.judge.hostile import FORGERY

SETTINGS = JudgeSettings("class", situations=1, seconds=5.0, phases=(1,))
FORGE = "import os, json\n" + FORGERY.replace("CONTENT", "json.dumps(FORGED).encode() + b'\\n'")
DEEP = "json.loads('[' * 600 + ']' * 600)"
AT_LOADING = (
    "{'answer': None, 'changes': []}",
    "{'answer': " + DEEP + "}",
    "{'error': ['x' * 3_000_000, '[/boom]']}",
    "{'error': ['[/boom]', '[/boom] \\x1b[2J \\ud800 \\u202e']}",
)
SPEAKS = "\ndef clamp(*numbers): raise ValueError('[/boom] \\x1b[2J \\ud800 \\u202e ' + 'x' * 3_000_000)\n"
RENAMES = "\nValueError = type('V' * 3_000_000, (Exception,), {})\ndef clamp(*numbers): raise ValueError('[/boom]')\n"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")


def handed_in(folder: Path, **texts: str) -> list[HandedIn]:
    for name, text in texts.items():
        (folder / name).mkdir()
        (folder / name / "phase1.py").write_text(text, encoding="utf-8")
    return [HandedIn(name, folder / name) for name in texts]


def graded(found: list[HandedIn], record: Record | None = None, num_jobs: int = 2) -> dict[str, RecordedResult]:
    graders = [GradingProcess(SETTINGS) for _ in range(num_jobs)]
    return dict(ClassRun(SETTINGS, record or Record(SETTINGS), graders).results(found))


def test_what_a_file_sends_while_it_is_loaded_stops_nothing(tmp_path: Path) -> None:
    attacks = {f"attack{number}": FORGE.replace("FORGED", forged) for number, forged in enumerate(AT_LOADING)}
    results = graded(handed_in(tmp_path, **attacks, ada=solution(1)), num_jobs=1)
    assert results["ada"]["summary"]["points"] == 40
    for name in attacks:
        (phase,) = results[name]["summary"]["phases"]
        assert str(phase["error"]).startswith("The file cannot be loaded"), phase["error"]
        assert len(results[name]["feedback"]) < 10_000


@pytest.mark.parametrize(("ending", "shown"), [(SPEAKS, "[/boom]"), (RENAMES, "a text has 3,000,000 characters")])
def test_what_a_file_says_is_printable_and_short(tmp_path: Path, ending: str, shown: str) -> None:
    (result,) = graded(handed_in(tmp_path, eve=solution(1) + ending)).values()
    assert shown in result["feedback"]
    assert len(result["feedback"]) < 50_000
    assert CONTROL.findall(result["feedback"] + json.dumps(result["summary"], ensure_ascii=False)) == []
    assert 0 < result["summary"]["points"] < 40


def test_the_command_survives_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    found = handed_in(tmp_path / "in", **{"[red]eve": solution(1) + SPEAKS, "ada": solution(1), "\u6f22" * 83: "x"})
    (tmp_path / "in" / "broken.zip").write_bytes(b"PK\x03\x04" + bytes(30))
    arguments = [str(one.path) for one in found] + [str(tmp_path / "in" / "broken.zip")]
    out = ["--csv", str(tmp_path / "p.csv"), "--json", str(tmp_path / "p.json"), "--feedback", str(tmp_path / "f")]
    told = CliRunner().invoke(app, ["judge", *arguments, "--no-jail", "--phase", "1", "--situations", "1", *out])
    assert told.exit_code == 1, told.output
    assert CONTROL.findall(told.output.replace("\n", "")) == []
    assert len((tmp_path / "p.csv").read_text(encoding="utf-8").splitlines()) == 5
    assert len(list((tmp_path / "f").iterdir())) == 4


def test_a_path_means_what_it_means_where_the_judge_was_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed_in(tmp_path, ada=solution(1))
    monkeypatch.chdir(tmp_path)
    (result,) = graded([HandedIn("ada", Path("ada"))]).values()
    assert (result["summary"]["error"], result["summary"]["points"]) == (None, 40)


def test_a_grading_process_that_dies_costs_one_submission(tmp_path: Path) -> None:
    found = handed_in(tmp_path, ada=solution(1), bob=solution(1))

    def kill_over_ada(name: str, what: str, done: int) -> None:
        if name == "ada" and process._worker is not None:
            process._worker.kill()

    record, process = Record(SETTINGS), GradingProcess(SETTINGS, kill_over_ada)
    results = dict(ClassRun(SETTINGS, record, [process]).results(found))
    assert "could not be graded" in str(results["ada"]["summary"]["error"])
    assert [len(result["summary"]["phases"]) for result in results.values()] == [1, 1]
    assert results["bob"]["summary"]["points"] == 40
    assert set(record.results) == {"bob"}, "the judge's own failure is no result: the next run tries again"


def test_what_is_ended_starts_nothing_again(tmp_path: Path) -> None:
    grader = GradingProcess(SETTINGS)
    grader.end()
    with pytest.raises(GraderError, match="could not be graded"):
        grader.grade(handed_in(tmp_path, ada=solution(1))[0])
    assert grader._worker is None


def test_a_grading_process_cannot_take_all_memory(tmp_path: Path) -> None:
    grader = GradingProcess(SETTINGS)
    try:
        grader.grade(handed_in(tmp_path, ada="x = 1")[0])
        assert grader._worker is not None
        most = grading.LIMITS.memory_bytes
        assert resource.prlimit(grader._worker.pid, resource.RLIMIT_DATA) == (most, most)
    finally:
        grader.end()


def test_feedback_has_a_time_and_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    grade = SubmissionGrade("ada")

    def for_ever(grade: object, *, jailed: bool) -> str:
        while True:
            pass

    monkeypatch.setattr(grading, "FEEDBACK_SECONDS", 0.2)
    monkeypatch.setattr(grading, "feedback", for_ever)
    start = time.monotonic()
    cut = grading.feedback_in_time(grade, jailed=False)
    assert time.monotonic() - start < 10
    assert cut.startswith("ada: 0 of 0 points\n\nThe details cannot be shown")
    monkeypatch.setattr(grading, "feedback", lambda grade, jailed: "x" * 10**6)
    assert len(grading.feedback_in_time(grade, jailed=False)) == grading.MAX_FEEDBACK


@pytest.mark.parametrize("times", [1, 2])
def test_a_submission_that_is_slow_to_read_gets_a_second_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    (one,), late = handed_in(tmp_path, ada=solution(1)), list[str]()

    def look(content: bytes) -> str:
        if len(late) < times:
            late.append("")
            time.sleep(9)
        return ""

    monkeypatch.setattr(grading, "READ_SECONDS", (0.2, 0.3))
    monkeypatch.setattr(grading, "refused_import", look)
    found = grading.read_in_time(lambda: read_submission(one.path, one.name), one.name)
    assert (list(found.starters), found.error) == (
        ([1], "") if times == 1 else ([], "it took longer than 0.3 seconds to read")
    )


def test_the_judges_own_failure_says_what_it_was(tmp_path: Path) -> None:
    grader = GradingProcess(replace(SETTINGS, situations="five"))  # type: ignore[arg-type]
    try:
        with pytest.raises(GraderError, match=r"its last line: .*Error"):
            grader.grade(handed_in(tmp_path, ada=solution(1))[0])
    finally:
        grader.end()


def test_a_record_continues_where_it_was_cut(tmp_path: Path) -> None:
    found, path = handed_in(tmp_path, ada=solution(1), bob=solution(1)), tmp_path / "run.jsonl"
    first = graded(found, Record(SETTINGS, path))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:20])  # killed while it was writing the second result
    assert recorded_settings(path) == SETTINGS
    record = Record(SETTINGS, path)
    (kept,) = record.results
    seen: list[str] = []
    run = ClassRun(SETTINGS, record, [GradingProcess(SETTINGS, lambda name, what, done: seen.append(name))])
    again = dict(run.results(found))
    assert {name: result["summary"] for name, result in again.items()} == {
        name: result["summary"] for name, result in first.items()
    }
    assert set(seen) == {"ada", "bob"} - {kept}
    assert set(Record(SETTINGS, path).results) == {"ada", "bob"}


def test_a_line_that_is_no_result_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    Record(SETTINGS, path)
    path.write_bytes(path.read_bytes() + b'{"name": "ada"}\n')
    with pytest.raises(RecordError, match="line 2: not a result"):
        Record(SETTINGS, path)


def test_a_changed_file_is_graded_again(tmp_path: Path) -> None:
    found, record = handed_in(tmp_path, ada="x = 1"), Record(SETTINGS)
    assert graded(found, record)["ada"]["summary"]["points"] == 0
    (found[0].path / "phase1.py").write_text(solution(1), encoding="utf-8")
    assert graded(found, record)["ada"]["summary"]["points"] == 40


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("submission,points\n")
    with pytest.raises(RecordError, match="not a judge record"):
        recorded_settings(tmp_path / "x.csv")


def test_jobs_give_the_same_results(tmp_path: Path) -> None:
    found = handed_in(tmp_path, **{f"learner{number}": solution(1) + "\n" * number for number in range(3)})
    one, three = graded(found, num_jobs=1), graded(found, num_jobs=3)
    assert {name: one[name]["summary"] for name in one} == {name: three[name]["summary"] for name in one}


@pytest.mark.parametrize(
    ("option", "target", "message"),
    [("--csv", "", "is a folder"), ("--json", "none/x.json", "does not exist"), ("--feedback", "file", "cannot be")],
)
def test_an_impossible_place_is_refused_at_once(tmp_path: Path, option: str, target: str, message: str) -> None:
    (tmp_path / "file").write_text("")
    handed_in(tmp_path, ada=solution(1))
    told = CliRunner().invoke(app, ["judge", str(tmp_path / "ada"), "--no-jail", option, str(tmp_path / target)])
    assert told.exit_code == 2
    assert message in " ".join(told.output.split())
