"""The workflow that grades a learner's repository: its own commands, run in a student edition."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from lab import set_up
from mini_vllm_labs.classroom.student_edition.edition import write
from mini_vllm_labs.grading.plan import load_plan
from mini_vllm_labs.runs.starter_status import starter_path
from tests.course.surface import solution_path
from tests.edition.conftest import clean_environment

WORKFLOW = ".github/workflows/grade.yml"


def workflow(student: Path) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((student / WORKFLOW).read_text(encoding="utf-8"))
    return found


def steps(student: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workflow(student)["jobs"]["grade"]["steps"]
    return found


def command(student: Path, name: str) -> str:
    (found,) = [step["run"] for step in steps(student) if step.get("name") == name]
    assert isinstance(found, str)
    return found


def test_it_is_a_workflow(student: Path) -> None:
    found = workflow(student)
    assert set(found) == {"name", True, "permissions", "jobs"}, "YAML reads the key `on` as true"
    assert set(found[True]) == {"push", "workflow_dispatch"}
    assert found["permissions"] == {"contents": "read"}
    for step in steps(student):
        assert set(step) <= {"name", "if", "run", "uses", "with"}
        assert ("run" in step) != ("uses" in step)
        assert re.fullmatch(r"actions/[\w-]+@v\d", step.get("uses", "actions/x@v1"))


@pytest.mark.parametrize("layout", ["repository", "folder"])
def test_it_installs_as_the_course_does(
    layout: str, edition: dict[str, bytes], learners_files: dict[str, bytes], tmp_path: Path
) -> None:
    write(edition if layout == "repository" else learners_files, tmp_path / "course")
    line = command(tmp_path / "course", "Install the course")
    assert line.startswith('python -c "')
    shown = line.replace("lab.set_up('cpu')", "print(lab.ROOT, lab.CONSTRAINTS, *lab.PIP)").replace(
        "python", sys.executable
    )
    done = subprocess.run(shown, shell=True, cwd=tmp_path / "course", capture_output=True, text=True, check=True)
    root, constraints, *pip = map(Path, done.stdout.split())
    assert (root, constraints, root / pip[-1]) == (tmp_path / "course", constraints, constraints)
    cache = steps(tmp_path / "course")[1]["with"]["cache-dependency-path"]
    assert constraints == root / cache
    assert constraints.read_bytes() == edition["constraints.txt"]
    assert set_up.__annotations__ == {"torch": str, "return": None}


def test_its_commands_show_the_grade(learner: Path) -> None:
    text = solution_path(1).read_text(encoding="utf-8")
    bad = "\ndef clamp(*numbers): raise ValueError('</pre><script> `x` \\x1b')\n"
    starter_path(1, learner).write_text(text + bad, encoding="utf-8")
    summary = str(learner / "summary.md")
    environment = clean_environment(GITHUB_STEP_SUMMARY=summary, PYTHONDONTWRITEBYTECODE="1")
    for name in ("Grade", "Show the grade"):
        line = command(learner, name).replace(".venv/bin/python", f"'{sys.executable}'")
        line = line.replace(" grade --json", " grade --phase 1 --json")
        subprocess.run(["bash", "-e", "-c", line], cwd=learner, env=environment, check=True, capture_output=True)
    grade = json.loads((learner / "grade.json").read_text(encoding="utf-8"))
    assert 0 < grade["total"] < grade["max"] == 50
    cases = list(ElementTree.parse(learner / "grade.xml").iter("testcase"))
    assert len(cases) == len(load_plan()[0].tests) + 2
    summary = (learner / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("## ")
    assert f"/{grade['max']} | fail |" in summary
    assert "<summary>Phase 1, task 1: " in summary
    assert "<script" not in summary
    (paths,) = [step["with"]["path"] for step in steps(learner) if "upload" in step.get("uses", "")]
    assert all((learner / path).is_file() for path in paths.split())
