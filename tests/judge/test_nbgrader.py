"""nbgrader takes the course folder; its graded cell gives the judge's points.

With `NBGRADER` set to its command, nbgrader itself makes and validates the release; it is no dependency of the course.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest
from typer.testing import CliRunner

from classroom.export.nbgrader import compose
from classroom.export.nbgrader_cell import judge_points
from classroom.judge.settings import Settings
from classroom.student_edition.leaks import long_lines, secret_lines
from cli.main import app
from course.grading.plan import load_plan
from mini_vllm.assembly.lineup import CHECKOUT
from tests.grading.checkout import solution

SETTINGS = Settings(
    "seed-of-the-class", situations=1, seconds=10.0, minutes=5.0, phases=(1, 2, 3, 4, 5, 6), jailed=False
)
# nbgrader/nbgraderformat/v3.json
FIELDS = {"grade": bool, "locked": bool, "solution": bool, "task": bool, "points": int, "grade_id": str}


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return compose(SETTINGS)


def notebooks(files: dict[str, str]) -> list[dict[str, Any]]:
    return [json.loads(text) for path, text in files.items() if path.endswith(".ipynb")]


def test_an_assignment_per_phase_worth_what_the_plan_says(files: dict[str, str]) -> None:
    plan = load_plan()
    expected = [f"source/phase{phase.number}/phase{phase.number}.ipynb" for phase in plan]
    assert [path for path in files if path.startswith("source/")] == expected
    for phase, notebook in zip(plan, notebooks(files), strict=True):
        marked = [cell["metadata"]["nbgrader"] for cell in notebook["cells"] if cell["metadata"]]
        assert [marks["points"] for marks in marked if marks["grade"]] == [phase.points]


def test_the_metadata_is_nbgraders(files: dict[str, str]) -> None:
    ids = []
    for notebook in notebooks(files):
        nbformat.validate(nbformat.from_dict(notebook))
        for cell in notebook["cells"]:
            if marks := cell["metadata"].get("nbgrader"):
                assert marks.pop("schema_version") == 3
                assert all(isinstance(value, FIELDS[name]) for name, value in marks.items())
                assert {"grade", "locked", "solution"} <= set(marks)
                assert ("points" in marks) == marks["grade"]
                assert re.fullmatch(r"[a-zA-Z0-9_-]+", marks["grade_id"])
                ids.append(marks["grade_id"])
    assert len(ids) == len(set(ids)) == 12


def test_no_solution_and_no_seed_in_a_notebook(files: dict[str, str]) -> None:
    secret = secret_lines(CHECKOUT)
    for notebook in notebooks(files):
        text = "\n".join(cell["source"] for cell in notebook["cells"])
        assert len(secret & set(long_lines(text))) <= 2
        assert SETTINGS.seed not in text


def test_the_graded_cell_gives_the_judges_points(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "judge_settings.json").write_text(files["judge_settings.json"])
    folder = tmp_path / "autograded" / "ada" / "phase1"
    folder.mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="is missing"):
        judge_points(1, folder)
    (folder / "phase1.py").write_text(solution(1), encoding="utf-8")
    assert judge_points(1, folder) == 40.0
    starter = notebooks(files)[0]["cells"][1]["source"].partition("\n")[2]
    (folder / "phase1.py").write_text(starter, encoding="utf-8")
    assert judge_points(1, folder) == 0.0
    printed = capsys.readouterr()
    assert "phase1: 0 of 40 points" in printed.out
    assert printed.err == "", "nbgrader gives no points to a cell that writes to stderr"


def test_without_settings_the_cell_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "phase1.py").touch()
    with pytest.raises(FileNotFoundError, match="is in no folder above"):
        judge_points(1, tmp_path)


def test_the_command_writes_into_a_new_folder_only(tmp_path: Path) -> None:
    arguments = ["nbgrader", str(tmp_path / "course"), "--phase", "2", "--seed", "s1"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    written = {path.relative_to(tmp_path / "course").as_posix() for path in (tmp_path / "course").rglob("*.*")}
    assert written == {"nbgrader_config.py", "judge_settings.json", "source/phase2/phase2.ipynb"}
    assert CliRunner().invoke(app, arguments).exit_code == 2


@pytest.mark.skipif(not os.environ.get("NBGRADER"), reason="NBGRADER does not name nbgrader's command")
def test_nbgrader_makes_and_accepts_the_release(files: dict[str, str], tmp_path: Path) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    nbgrader = Path(os.environ["NBGRADER"])
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PATH"] = f"{nbgrader.parent}{os.pathsep}{environment['PATH']}"  # it calls alembic by name
    for arguments in (["generate_assignment", "phase1"], ["validate", "release/phase1/phase1.ipynb"]):
        command = [str(nbgrader), *arguments]
        told = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stderr
    assert "Success!" in told.stdout
    released = json.loads((tmp_path / "release" / "phase1" / "phase1.ipynb").read_text(encoding="utf-8"))
    assert "judge_points" not in json.dumps(released)
    assert released["cells"][1]["source"] == notebooks(files)[0]["cells"][1]["source"].splitlines(keepends=True)
    assert released["cells"][2]["metadata"]["nbgrader"]["points"] == 40
