"""Tests that `mini-vllm release` never releases a line of the solutions, and tests what it refuses to do."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mini_vllm_labs.classroom.student_edition.edition import compose, leaks, require_tracked_code, secret_lines, write
from mini_vllm_labs.classroom.student_edition.texts import EDITS, ReleaseError, adapted
from mini_vllm_labs.runs.starter_status import starter_path
from tests.course.surface import PHASES, ROOT, solution_path

SECRETS = ("solutions/*.py", "tests/alternatives/*.diff", "tests/mutants/**/*.diff")
FORBIDDEN = ("solutions", "tests", ".git", ".ci", ".venv", "__pycache__", ".hypothesis", "mutants", "alternatives")


# A released edition must not contain anything from the solutions.


def long_lines(text: str) -> set[str]:
    lines = (" ".join(line.split()).lstrip("+-# ") for line in text.splitlines())
    return {line for line in lines if len(line) > 40}


def secret_files() -> Iterator[Path]:
    for pattern in SECRETS:
        yield from ROOT.glob(pattern)


def test_no_file_of_solutions_tests_or_history(edition: dict[str, bytes]) -> None:
    folders = {part for path in edition for part in path.split("/")[:-1]}
    assert not folders & set(FORBIDDEN)
    secret = {path.read_bytes() for path in secret_files() if path.stat().st_size}
    assert [path for path, content in edition.items() if content in secret] == []


def test_no_distinctive_line_of_a_solution_a_mutant_or_an_alternative(edition: dict[str, bytes]) -> None:
    """A distinctive line has more than 40 characters and does not occur in any starter, frame, test or handout."""
    public = set[str]()
    for folder in ("labs", "mini_vllm", "mini_vllm_labs/grading", "mini_vllm_labs/runs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md"):
                public |= long_lines(path.read_text(encoding="utf-8"))
    secret = set[str]().union(*(long_lines(path.read_text(encoding="utf-8")) for path in secret_files()))
    distinctive = secret - public
    assert len(distinctive) > 300, "the comparison has become empty"
    found = {path: long_lines(content.decode(errors="replace")) & distinctive for path, content in edition.items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_no_file_of_the_frame_or_the_labs_has_solution_lines_in_a_row(edition: dict[str, bytes]) -> None:
    assert leaks(edition, secret_lines(ROOT)) == []


@pytest.mark.parametrize("phase", PHASES)
def test_a_solution_in_any_disguise_is_found(phase: int) -> None:
    text = solution_path(phase).read_text(encoding="utf-8")
    as_comment = "\n".join(f"    # {line}" for line in text.splitlines())
    edition = {"plain.py": text.encode(), "comment.py": as_comment.encode(), "handout.md": f"Look:\n{text}".encode()}
    edition["record.json"] = json.dumps({"text": text}).encode()
    edition["book.ipynb"] = json.dumps({"source": text.splitlines(keepends=True)}, indent=1).encode()
    assert leaks(edition, secret_lines(ROOT)) == list(edition)


def test_the_starters_go_out_as_they_are(edition: dict[str, bytes]) -> None:
    for phase in PHASES:
        path = starter_path(phase)
        assert edition[path.relative_to(ROOT).as_posix()] == path.read_bytes()


# What the command rejects.


@pytest.fixture
def teacher(learner: Path) -> Path:
    """A small checkout with solutions and templates, but without git."""
    for folder in ("solutions", "mini_vllm_labs/upkeep/student_edition"):
        shutil.copytree(ROOT / folder, learner / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in EDITS:
        (learner / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, learner / name)
    return learner


def test_without_git_all_but_caches_is_considered(teacher: Path) -> None:
    (teacher / "labs" / "__pycache__").mkdir()
    (teacher / "labs" / "__pycache__" / "x.py").write_text("x")
    (teacher / "notes.txt").write_text("for teachers")
    paths = compose(teacher)
    assert "mini_vllm_labs/grading/plays/support.py" in paths
    assert not {"notes.txt", "labs/__pycache__/x.py"} & set(paths)


def test_a_solved_starter_is_refused(teacher: Path) -> None:
    path = starter_path(1, teacher)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('raise NotImplementedError("Phase 1, task 1: clamp")', "return 0"), encoding="utf-8")
    with pytest.raises(ReleaseError, match="phase 1 clamp"):
        compose(teacher)


def test_a_stray_copy_of_a_solution_is_refused(teacher: Path) -> None:
    shutil.copy(solution_path(3), teacher / "labs" / "phase3_preemption" / "my_try.txt")
    with pytest.raises(ReleaseError, match=r"labs/phase3_preemption/my_try\.txt"):
        compose(teacher)


def test_scratch_files_that_git_does_not_know_are_named(learner: Path) -> None:
    require_tracked_code(learner)  # without git, the command has no way to know
    subprocess.run(["git", "init", "-q"], cwd=learner, check=True)
    subprocess.run(["git", "add", "."], cwd=learner, check=True)
    require_tracked_code(learner)
    (learner / "labs" / "mine.py").write_text("x = 1\n")
    with pytest.raises(ReleaseError, match=r"^untracked: labs/mine\.py\. Commit"):
        require_tracked_code(learner)


def test_a_student_edition_cannot_be_released(student: Path) -> None:
    with pytest.raises(ReleaseError, match="it is already a student edition"):
        compose(student)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ReleaseError, match="not empty"):
        write({"README.md": b""}, tmp_path)
    with pytest.raises(ReleaseError, match="not empty"):
        write({"README.md": b""}, tmp_path / "mine.txt")
    with pytest.raises(ReleaseError, match="outside"):
        write({"README.md": b""}, ROOT / "labs" / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_edit_that_does_not_fit_any_more_is_an_error() -> None:
    with pytest.raises(ReleaseError, match=r"lab\.py no longer contains"):
        adapted("lab.py", b"COMMANDS = {}")


def test_what_needs_the_solutions_stays_behind_in_a_handout() -> None:
    handout = (
        'It is 3. <!-- check: f() == 3 --> And 4\n<!-- check: g("->") == 4 --> is more,\n'
        "<!-- check: h(1) == 5 -->\n  <!-- check: a == 1 --> <!-- check: b == 2 -->\nand 5 too.\n"
        "<!-- with solutions -->\nLook into `solutions/`.\n<!-- end -->\nDone.\n"
    )
    released = adapted("labs/README.md", handout.encode()).decode()
    assert released == "It is 3. And 4\nis more,\nand 5 too.\nDone.\n"
    for half in ("<!-- with solutions -->\n", "<!-- end -->\n"):
        with pytest.raises(ReleaseError, match=r"labs/README\.md has '<!-- with solutions -->' without"):
            adapted("labs/README.md", half.encode())


def test_notebook_outputs_are_stripped() -> None:
    cell = {"cell_type": "code", "outputs": [{"text": "42"}], "execution_count": 3, "source": "print(42)"}
    content = adapted("notebooks/x.ipynb", json.dumps({"cells": [cell, {"cell_type": "markdown"}]}).encode())
    assert json.loads(content)["cells"][0] == cell | {"outputs": [], "execution_count": None}


def test_cells_about_the_reference_stay_behind() -> None:
    cells = [
        {"cell_type": "markdown", "metadata": {"tags": ["with-solutions"]}, "source": "compare with the reference"},
        {"cell_type": "markdown", "metadata": {"tags": ["other"]}, "source": "go on"},
    ]
    content = adapted("notebooks/x.ipynb", json.dumps({"cells": cells}).encode())
    assert json.loads(content)["cells"] == cells[1:]
