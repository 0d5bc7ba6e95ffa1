"""Gradescope accepts the results, and the autograder's zip works on its own."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mini_vllm_labs.classroom.export import gradescope
from mini_vllm_labs.classroom.export.gradescope import SCRIPT, as_gradescope, compose, write_zip
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.cli.main import app
from tests.grading.checkout import solution
from tests.judge.summaries import HOSTILE, phase, result, submission

SETTINGS = JudgeSettings("seed-of-the-class", situations=1, phases=(1,))
# gradescope-autograders.readthedocs.io/en/latest/specs lists all fields; we use only these
VISIBILITY = {"hidden", "after_due_date", "after_published", "visible"}
FORMAT = {"text", "html", "simple_format", "md", "ansi"}
NUMBER, TEXT = (int, float), (str,)
TOP = {
    "score": NUMBER,
    "execution_time": NUMBER,
    "output": TEXT,
    "output_format": FORMAT,
    "test_output_format": FORMAT,
    "test_name_format": FORMAT,
    "visibility": VISIBILITY,
    "stdout_visibility": VISIBILITY,
    "tests": (list,),
}
TEST = {
    "score": NUMBER,
    "max_score": NUMBER,
    "status": {"passed", "failed"},
    "name": TEXT,
    "number": TEXT,
    "output": TEXT,
}


def require_documented(found: dict[str, Any], fields: dict[str, Any]) -> None:
    """Fail unless all fields are Gradescope's, with values that it accepts."""
    for name, value in found.items():
        allowed = fields[name]
        assert value in allowed if isinstance(allowed, set) else isinstance(value, allowed), (name, value)


def read(found: dict[str, Any]) -> dict[str, Any]:
    """Return results in the format that Gradescope expects, after checking every field."""
    read: dict[str, Any] = json.loads(json.dumps(found))
    require_documented(read, TOP)
    for test in read["tests"]:
        require_documented(test, TEST)
    scored = [test for test in read["tests"] if "score" in test]
    assert sum(test["score"] for test in scored) == pytest.approx(read["score"])
    assert all(test["score"] <= test["max_score"] for test in scored)
    return read


def test_a_test_per_group_with_its_points() -> None:
    found = read(as_gradescope(result(submission("ada", phase(1, 1.0, 0.5), phase(3, 0.25)))))
    assert found["score"] == 25 + 10
    assert found["execution_time"] == 13
    first, second, *_ = found["tests"]
    assert (first["number"], first["name"], first["status"]) == ("1.1", "Phase 1: clamp", "passed")
    assert (second["score"], second["max_score"], second["status"]) == (5, 10, "failed")
    assert second["output"] == "2 of 4 situations right, 2 wrong"
    assert found["tests"][-1]["output"] == "ada: 10 of 40 points\n"


def test_what_cannot_be_played_is_one_test_with_the_reason() -> None:
    broken = submission("ada", phase(1, error="it does not load"), phase(3, file=False), error="no zip")
    found = read(as_gradescope(result(broken), "after_due_date"))
    assert [(test["name"], test["max_score"]) for test in found["tests"][:2]] == [("Phase 1", 40), ("Phase 3", 40)]
    assert found["tests"][0]["output"] == "it does not load"
    assert (found["score"], found["output"], found["visibility"]) == (0, "no zip", "after_due_date")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_stay_text(name: str) -> None:
    found = read(as_gradescope(result(submission(name, phase(1, error=name)), feedback=f"{name}\ud800\x07\n")))
    texts = [found["output"], *(test["output"] for test in found["tests"])]
    assert not any(re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\ud800]", text) for text in texts)
    assert {found[f"{kind}_format"] for kind in ("output", "test_output", "test_name")} == {"text"}


def test_the_zip_grades_a_submission(tmp_path: Path) -> None:
    write_zip(compose(SETTINGS, "after_published"), tmp_path / "autograder.zip")
    base = tmp_path / "autograder"
    with zipfile.ZipFile(tmp_path / "autograder.zip") as archive:
        archive.extractall(base / "source")
        entries = {entry.filename: entry for entry in archive.infolist()}
    assert all(entries[name].external_attr == SCRIPT for name in ("setup.sh", "run_autograder"))
    assert not [name for name in entries if name.startswith(("tests/", "docs/", "notebooks/", ".git"))]
    python = base / "source" / ".venv" / "bin" / "python"  # what setup.sh creates
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    for folder in ("submission", "results"):
        (base / folder).mkdir()
    (base / "submission" / "phase1.py").write_text(solution(1) + "\ndef clamp(*numbers): return 0\n", encoding="utf-8")
    assert run_autograder(base).returncode == 0
    found = read(json.loads((base / "results" / "results.json").read_text(encoding="utf-8")))
    assert 0 < found["score"] < 40
    assert found["visibility"] == "after_published"
    assert SETTINGS.seed not in json.dumps(found)


def run_autograder(base: Path) -> subprocess.CompletedProcess[str]:
    """Run the script as Gradescope does, but with its folder in a different location."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"AUTOGRADER": str(base)}
    command = ["bash", str(base / "source" / "run_autograder")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_scripts_are_bash(tmp_path: Path) -> None:
    files = compose(SETTINGS, "visible")
    for name in ("setup.sh", "run_autograder"):
        assert files[name].startswith(b"#!/usr/bin/env bash\n")
        subprocess.run(["bash", "-n"], input=files[name], check=True)


def test_without_a_jail_nothing_is_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = compose(JudgeSettings("s", phases=(1,), jailed=True), "visible")["judge_settings.json"]
    (tmp_path / "judge_settings.json").write_bytes(kept)
    monkeypatch.setattr(gradescope, "CHECKOUT", tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit) as ended:
        gradescope.main(tmp_path, tmp_path / "results.json")
    assert ended.value.code == 2
    assert "Nothing was graded" in capsys.readouterr().err
    assert not (tmp_path / "results.json").exists()


def test_the_command_names_the_seed_and_refuses_nonsense(tmp_path: Path) -> None:
    target = tmp_path / "a.zip"
    told = CliRunner().invoke(app, ["gradescope", str(target), "--seed", "s1", "--phase", "1-2"])
    assert told.exit_code == 0, told.output
    assert "--seed s1" in told.output
    kept = json.loads(zipfile.ZipFile(target).read("judge_settings.json"))
    assert (kept["settings"]["seed"], kept["settings"]["phases"]) == ("s1", [1, 2])
    assert CliRunner().invoke(app, ["gradescope", str(target), "--shown", "never"]).exit_code == 2
