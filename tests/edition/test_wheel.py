"""The wheel `mini-vllm-labs` in an empty environment: start, demo, test, grade, update, and refusals."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from mini_vllm_labs.classroom.student_edition.texts import ReleaseError
from mini_vllm_labs.classroom.student_edition.wheel import build
from mini_vllm_labs.launcher.folder import MARKER, FolderError, course_around, start, update
from mini_vllm_labs.launcher.start import by_folder
from mini_vllm_labs.runs.starter_status import starter_path
from tests.edition.new_learner import NewLearner

STARTER = "labs/phase1_scheduler_step/starter.py"
HANDOUT = "labs/phase1_scheduler_step/README.md"
COURSE = {"labs/conftest.py": b"", "mini_vllm/__init__.py": b""}
FIRST = COURSE | {
    STARTER: b"raise",
    HANDOUT: b"read\n",
    "mini_vllm_labs/cli/__main__.py": b"",
    "labs/old_test.py": b"1",
    "a/b.ipynb": b"{}",
}
SECOND = {path: content + b" 2" for path, content in FIRST.items() if path != "labs/old_test.py"} | {"new.md": b"new"}
SECOND |= COURSE


@pytest.fixture(scope="session")
def newcomer(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> NewLearner:
    learner = NewLearner(tmp_path_factory.mktemp("newcomer"))
    learner.install(wheel)
    assert learner.types("mini-vllm", "start", "my-labs", at=learner.home).returncode == 0
    return learner


def test_the_wheel_has_the_edition_the_engine_and_no_other_code_than_the_launcher(
    wheel: Path, learners_files: dict[str, bytes]
) -> None:
    with ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if ".dist-info/" not in name and ".data/" not in name]
        engine = {name for name in learners_files if name.startswith("mini_vllm/")}
        launcher = {f"mini_vllm_labs/{name}" for name in ("__init__.py", "edition.zip")}
        launcher |= {f"mini_vllm_labs/launcher/{name}.py" for name in ("__init__", "folder", "start")}
        assert set(names) == engine | launcher
        assert all(packed.read(name) == learners_files[name] for name in engine)
        metadata = packed.read(next(name for name in packed.namelist() if name.endswith("/METADATA"))).decode()
        with packed.open("mini_vllm_labs/edition.zip") as file, ZipFile(file) as archive:
            assert {name: archive.read(name) for name in archive.namelist()} == learners_files
    for need in ("torch>=", "pytest>=", "pytest-timeout>=", 'fastapi>=0.115; extra == "serve"'):
        assert f"Requires-Dist: {need}" in metadata


def test_from_start_to_the_first_green_task(newcomer: NewLearner) -> None:
    demo = newcomer.types("mini-vllm", "demo")
    assert (demo.returncode, demo.stderr) == (0, "")
    assert "next is Phase 1, task 1: clamp" in demo.stdout
    test = ("python", "-P", "-m", "pytest", "labs/phase1_scheduler_step", "-m", "task1_1")
    assert newcomer.types(*test).returncode == 1
    before = starter_path(1, newcomer.folder).read_bytes()
    newcomer.writes_the_first_task()
    green = newcomer.types(*test)
    assert green.returncode == 0, green.stdout
    assert f"labs/ of {newcomer.folder}, graded with LAB_IMPL=starter" in green.stdout
    graded = newcomer.types("mini-vllm", "grade", "--phase", "1", at=newcomer.folder / "notebooks")
    assert "10 of 50 points" in graded.stdout, graded.stderr
    assert newcomer.types("mini-vllm", "hint", "1.1").returncode == 0
    text = newcomer.types("mini-vllm", "generate", "hello", "--max-tokens", "1")
    assert "pytest labs/phase1_scheduler_step -m task1_2" in text.stderr
    starter_path(1, newcomer.folder).write_bytes(before)


def test_a_learner_who_opens_the_folder_sees_eight_entries_and_where_to_begin(newcomer: NewLearner) -> None:
    """The folder looks the same even after commands, tests and an update have been run in it."""
    assert newcomer.types("python", "-m", "pytest", "-m", "task1_1", at=newcomer.folder / "labs").returncode == 1
    assert newcomer.types("mini-vllm", "start", "--update").returncode == 0
    seen = {path.name for path in newcomer.folder.iterdir() if not path.name.startswith(".")}
    assert seen == {
        "AGENTS.md",
        "README.md",
        "docs",
        "labs",
        "mini_vllm",
        "mini_vllm_labs",
        "notebooks",
        "pyproject.toml",
    }
    readme = (newcomer.folder / "README.md").read_text(encoding="utf-8")
    begin = readme.index("## Start here")
    assert readme.index("](labs/README.md)") > begin
    assert begin < min(readme.index(later) for later in ("](docs/", "## What you build"))
    assert not re.search(r"\bmake\b|lab\.py|Binder", readme), "pip has set it up"


def test_the_code_that_runs_is_the_folders_also_from_inside_it(newcomer: NewLearner) -> None:
    program = "import labs, mini_vllm; print(labs.__file__, mini_vllm.__file__)"
    assert newcomer.types("python", "-c", program, at=newcomer.home).returncode == 1, "importable without a folder"
    found = newcomer.types("mini-vllm", "info", at=newcomer.folder / "labs", COLUMNS="300").stdout
    assert str(newcomer.folder) in found
    refused = newcomer.types("mini-vllm", "demo", LAB_IMPL="solution")
    assert "has no reference solutions because it is a student edition" in refused.stderr


def test_the_installed_engine_says_where_it_runs(newcomer: NewLearner) -> None:
    """In a course folder, that folder's engine is imported; elsewhere, other projects' `labs` are ignored."""
    program = "import mini_vllm; print(mini_vllm.__file__, flush=True); mini_vllm.LLM()"
    (newcomer.home / "labs.py").write_text("", encoding="utf-8")
    outside = newcomer.types("python", "-c", program, at=newcomer.home)
    (newcomer.home / "labs.py").unlink()
    assert outside.stdout.strip().startswith(str(newcomer.environment))
    assert outside.stderr.strip().endswith("run the engine in the folder that `mini-vllm start my-labs` creates")
    inside = newcomer.types("python", "-c", program, at=newcomer.folder)
    assert inside.stdout.strip() == str(newcomer.folder / "mini_vllm" / "__init__.py")


def test_outside_a_folder_it_says_what_to_type(newcomer: NewLearner) -> None:
    for command in (["demo"], [], ["--help"], ["start", "--update"]):
        done = newcomer.types("mini-vllm", *command, at=newcomer.home)
        assert (done.returncode, done.stdout) == (2, "")
        assert "mini-vllm start my-labs" in done.stderr
    again = newcomer.types("mini-vllm", "start", "my-labs", at=newcomer.home)
    assert (again.returncode, again.stdout) == (2, "")
    assert "--update" in again.stderr


@pytest.mark.parametrize(("place", "found"), [("my-labs/notebooks", "watch"), ("", "")])
def test_a_shell_completes_in_a_folder_and_is_quiet_outside(newcomer: NewLearner, place: str, found: str) -> None:
    asked = {"_MINI_VLLM_COMPLETE": "complete_bash", "COMP_WORDS": "mini-vllm wat", "COMP_CWORD": "1"}
    done = newcomer.types("mini-vllm", at=newcomer.home / place, **asked)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, found, "")


def test_a_killed_start_is_finished_by_the_next(newcomer: NewLearner, learners_files: dict[str, bytes]) -> None:
    folder = newcomer.home / "killed"
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom mini_vllm_labs.launcher import folder, start\n"
        "whole, number = folder.write_whole, iter(range(10**6))\n"
        "def dying(target, content):\n "
        "   if next(number) == int(sys.argv[1]):\n "
        "       Path(str(target) + '.being-written').write_bytes(content[:3]) if target.parent.exists() else None\n "
        "       os.kill(os.getpid(), signal.SIGKILL)\n "
        "   whole(target, content)\n"
        "folder.write_whole = dying\nstart.start_command([sys.argv[2]])\n"
    )
    for files in ("0", "1", "300", str(len(learners_files) - 298)):  # the files listed before the last marker
        done = newcomer.types("python", "-c", program, files, "killed", at=newcomer.home)
        assert done.returncode == -signal.SIGKILL
    assert newcomer.types("mini-vllm", "start", "killed", at=newcomer.home).returncode == 0
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert left - {MARKER} == set(learners_files)
    assert all((folder / path).read_bytes() == content for path, content in learners_files.items())


@pytest.mark.skipif(sys.platform == "win32", reason="nothing holds a folder there")
def test_of_two_starts_at_once_one_wins_and_the_other_says_so(
    newcomer: NewLearner, learners_files: dict[str, bytes]
) -> None:
    program = "import sys; from mini_vllm_labs.launcher.start import main; sys.argv[1:] = ['start', 'both']; main()"
    command = [str(newcomer.bin / "python"), "-c", program]
    started = [subprocess.Popen(command, cwd=newcomer.home, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    errors = [process.communicate()[1] for process in started]
    assert sorted(process.returncode for process in started) == [0, 2, 2, 2], errors
    known = ("another `mini-vllm start` is writing", "is already a course folder")
    assert all(any(words in error for words in known) for error in errors if error), errors
    assert contents(newcomer.home / "both") == learners_files


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def edited(folder: Path, changed: Mapping[str, bytes]) -> None:
    for path, content in changed.items():
        (folder / path).write_bytes(content)


def test_an_update_replaces_ours_and_keeps_theirs(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    start(folder, FIRST)
    edited(folder, {"a/b.ipynb": b"with my outputs", "notes.txt": b"mine", HANDOUT: b"read\r\n"})
    changes = update(folder, SECOND)
    assert contents(folder) == COURSE | {
        STARTER: b"raise",
        f"{STARTER}.new": b"raise 2",
        HANDOUT: b"read\n 2",
        "mini_vllm_labs/cli/__main__.py": b" 2",
        "a/b.ipynb": b"with my outputs",
        "a/b.ipynb.new": b"{} 2",
        "new.md": b"new",
        "notes.txt": b"mine",
    }
    assert changes.kept == {STARTER: "starter.py.new", "a/b.ipynb": "b.ipynb.new"}
    assert changes.removed == ["labs/old_test.py"]
    assert update(folder, SECOND).written == []


def test_an_update_brings_a_folder_of_ten_packages_to_one_and_keeps_the_starter(tmp_path: Path) -> None:
    """Up to release 0.2, the packages in a learner's folder were named `course`, `cli` and so on."""
    folder = tmp_path / "mine"
    old = {"course/labtest/support.py": b"1", "course/own.py": b"1", "cli/__main__.py": b"1"}
    start(folder, COURSE | old | {STARTER: b"raise"})
    edited(folder, {STARTER: b"my scheduler", "course/own.py": b"mine"})
    (folder / "cli/__pycache__").mkdir()
    (folder / "cli/__pycache__/__main__.pyc").touch()
    marker = (folder / MARKER).rename(tmp_path / "marker")
    assert course_around(folder / "labs") == folder, "`mini-vllm release` writes no marker"
    marker.rename(folder / MARKER)
    update(folder, COURSE | {STARTER: b"raise", "mini_vllm_labs/cli/__main__.py": b""})
    assert (folder / STARTER).read_bytes() == b"my scheduler"
    assert {path.relative_to(folder).as_posix() for path in (folder / "course").rglob("*")} == {"course/own.py"}
    assert not (folder / "cli").exists()


def test_an_update_of_a_flat_folder_hides_what_sets_up_and_keeps_all_that_is_the_learners(
    tmp_path: Path, edition: dict[str, bytes], learners_files: dict[str, bytes]
) -> None:
    """In early releases, `mini-vllm start` wrote the files of a repository, such as `lab.py` and `constraints.txt`."""
    folder = tmp_path / "mine"
    start(folder, {**edition, "conftest.py": b"import pytest\n"})
    mine = {STARTER: b"my scheduler\r\n", ".hints_seen.json": b'{"1.1": 2}', ".watch.json": b"{}"}
    mine |= {"notebooks/00_tour.predictions.json": b"[]", "Makefile": b"my targets"}
    edited(folder, mine)
    changes = update(folder, learners_files)
    assert contents(folder) == learners_files | mine
    assert changes.kept == {}, "none of ours is new"
    removed = {"conftest.py", "constraints.txt", "environment.yml", "lab.py", "LICENSE", "postBuild"}
    assert set(changes.removed) == removed


def test_an_update_says_in_a_line_what_it_removes() -> None:
    assert by_folder(["a", "b/c"]) == ["a", "b/c"]
    assert by_folder([*(f"cli/{number}.py" for number in range(29)), "lab.py"]) == ["cli/ (29)", "lab.py"]


def test_an_update_to_the_same_edition_says_nothing_of_what_was_written(tmp_path: Path) -> None:
    start(tmp_path / "mine", FIRST)
    edited(tmp_path / "mine", {STARTER: b"my scheduler", "labs/old_test.py": b"my test"})
    before = contents(tmp_path / "mine")
    assert update(tmp_path / "mine", FIRST).kept == {}
    assert contents(tmp_path / "mine") == before
    assert update(tmp_path / "mine", SECOND).removed == [], "a test that the learner has changed"


def test_a_name_that_the_learner_uses_is_not_overwritten(tmp_path: Path) -> None:
    start(tmp_path / "mine", FIRST)
    edited(tmp_path / "mine", {STARTER: b"my scheduler", f"{STARTER}.new": b"my notes"})
    assert update(tmp_path / "mine", SECOND).kept[STARTER] == "starter.py.new2"
    assert (tmp_path / "mine" / f"{STARTER}.new").read_bytes() == b"my notes"


@pytest.mark.parametrize("marker", [b"", b"[]", b'{"ours": 1, "unfinished": false}', b"\xff"])
def test_a_damaged_marker_is_named_and_nothing_written(tmp_path: Path, marker: bytes) -> None:
    start(tmp_path / "mine", FIRST)
    edited(tmp_path / "mine", {MARKER: marker, STARTER: b"my scheduler"})
    before = contents(tmp_path / "mine")
    for command in (start, update):
        with pytest.raises(FolderError, match="cannot be read: delete it"):
            command(tmp_path / "mine", SECOND)
    assert contents(tmp_path / "mine") == before
    (tmp_path / "mine" / MARKER).unlink()
    assert STARTER in update(tmp_path / "mine", SECOND).kept


def test_start_never_writes_over_anything(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    edited(tmp_path / "mine", {"x": b"mine"})
    for place, words in (("mine", "not empty"), ("mine/x", "is a file")):
        with pytest.raises(FolderError, match=words):
            start(tmp_path / place, FIRST)
    with pytest.raises(FolderError, match="not a course folder"):
        update(tmp_path / "mine", FIRST)
    assert contents(tmp_path) == {"mine/x": b"mine"}
    start(tmp_path / "course", FIRST)
    with pytest.raises(FolderError, match="inside the course"):
        start(tmp_path / "course" / "labs" / "again", FIRST)


def test_what_the_system_refuses_is_said_and_can_be_mended(tmp_path: Path) -> None:
    start(tmp_path / "mine", FIRST)
    (tmp_path / "mine" / HANDOUT).unlink()
    (tmp_path / "mine" / HANDOUT).mkdir()
    with pytest.raises(FolderError, match="unfinished: Is a directory"):
        update(tmp_path / "mine", SECOND)
    assert json.loads((tmp_path / "mine" / MARKER).read_text())["unfinished"]
    (tmp_path / "mine" / HANDOUT).rmdir()
    update(tmp_path / "mine", SECOND)
    assert contents(tmp_path / "mine")[HANDOUT] == SECOND[HANDOUT]


def test_a_checkout_has_no_archive_and_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mini_vllm_labs.launcher.start", "start", str(tmp_path / "new")]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert (done.returncode, (tmp_path / "new").exists()) == (2, False)
    assert "release --wheel" in done.stderr
    (tmp_path / "file").touch()
    with pytest.raises(ReleaseError, match="is a file"):
        build({}, tmp_path / "file")
