"""`mini-vllm judge` and `release`: files and output. Verdicts have separate tests; editions are tested in
`tests/edition`."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Commands
from tests.grading.checkout import solution
from tests.judge.files import mutant

SEED = "cli-secret"


@pytest.fixture
def handed_in(tmp_path: Path) -> list[Path]:
    texts = {"=good": solution(3), "wrong": mutant(3, "queue serves priority 0 last")}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "phase3.py").write_text(text, encoding="utf-8")
    (tmp_path / "empty").mkdir()
    return [tmp_path / name for name in (*texts, "empty")]


def test_a_class(mini_vllm: Commands, handed_in: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--no-jail", "--phase", "3", "--situations", "2", "--seed", SEED]
    files = ["--json", tmp_path / "all.json", "--csv", tmp_path / "all.csv", "--feedback", out]
    shown = mini_vllm("judge", *handed_in, *options, *files, exit_code=1)
    assert "NOT ISOLATED" in shown.stderr
    assert "40/40" in shown.stdout
    assert "empty: the submission contains no starter" in shown.stdout
    assert f"--seed {SEED}" in shown.stdout
    found = json.loads((tmp_path / "all.json").read_text())
    whole, part, none = (submission["points"] for submission in found["submissions"])
    assert (whole, none) == (40, 0)
    assert 0 < part < 40, "a wrong queue costs its group, and not the whole phase"
    assert found["isolated"] is False
    rows = list(csv.DictReader((tmp_path / "all.csv").open()))
    assert [row["submission"] for row in rows] == ["'=good", "wrong", "empty"]
    assert [float(row["points"]) for row in rows] == [whole, part, none]
    text = (out / "wrong.txt").read_text()
    assert "0/10  the priority queue (0 of 2 right)" in text
    assert "expected" in text
    assert SEED not in "".join(path.read_text() for path in out.iterdir())


def test_policies_are_read_from_their_folder(mini_vllm: Commands, tmp_path: Path) -> None:
    starter = tmp_path / "ada" / "labs" / "phase13_scheduling_policies" / "starter.py"
    starter.parent.mkdir(parents=True)
    starter.write_text(solution(13), encoding="utf-8")
    options = ["--no-jail", "--phase", "7-13", "--situations", "1", "--csv", tmp_path / "all.csv"]
    mini_vllm("judge", tmp_path / "ada", *options)
    (row,) = csv.DictReader((tmp_path / "all.csv").open())
    assert [row[f"phase_{number}"] for number in range(7, 14)] == [*["0.0"] * 6, "20.0"]


def test_the_first_differing_call_and_step_are_shown(mini_vllm: Commands, tmp_path: Path) -> None:
    for phase in range(1, 5):
        (tmp_path / f"phase{phase}.py").write_text(solution(phase), encoding="utf-8")
    (tmp_path / "phase5.py").write_text(mutant(5, "ignores the threshold"), encoding="utf-8")
    options = ["--no-jail", "--situations", "2", "--seed", SEED, "--reveal"]
    mini_vllm("judge", tmp_path, *options, "--feedback", tmp_path / "out")
    text = (tmp_path / "out" / f"{tmp_path.name}.txt").read_text()
    for words in (
        "is the first that differs",
        "asked({'threshold'",
        "num_new_tokens",
        "expected",
        "prompt tokens",
        SEED,
    ):
        assert words in text, "one phase on its own: the call"
    for words in ("The first difference from the reference is in step", "reference", "yours"):
        assert words in text, "the phases in one engine: the step"
    assert max(map(len, text.splitlines())) <= 110


def test_without_a_jail_it_refuses(mini_vllm: Commands, handed_in: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    message = mini_vllm("judge", *handed_in, exit_code=2).stderr
    assert "bubblewrap (bwrap) is not installed" in message
    assert "--no-jail" in message


@pytest.mark.parametrize("options", [["--phase", "15"], ["--phase", "1-8"], ["--json", "/no/folder/x.json"]])
def test_bad_usage(mini_vllm: Commands, tmp_path: Path, options: list[str]) -> None:
    mini_vllm("judge", tmp_path, "--no-jail", *options, exit_code=2)


def test_the_command_reports_what_it_wrote(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    edition = {"AGENTS.md": b"rules", "labs/a.py": b"x", "labs/b.py": b"y"}
    monkeypatch.setattr("mini_vllm_labs.cli.classroom.release.require_tracked_code", lambda: None)
    monkeypatch.setattr("mini_vllm_labs.cli.classroom.release.compose", lambda: edition)
    shown = mini_vllm("release", tmp_path / "new").output
    assert "3 files" in shown
    assert "AGENTS.md, labs/ (2)" in shown
    assert (tmp_path / "new" / "AGENTS.md").is_file()
    assert "not empty" in mini_vllm("release", tmp_path / "new", exit_code=2).stderr
    monkeypatch.undo()
    monkeypatch.setattr("mini_vllm_labs.classroom.student_edition.edition._git", lambda *_: ["labs/mine.py"])
    assert "labs/mine.py" in mini_vllm("release", tmp_path / "other", exit_code=2).stderr
