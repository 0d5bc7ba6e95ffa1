"""Binder and Colab: tests everything that does not require their own machines."""

import ast
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from mini_vllm_labs import colab
from mini_vllm_labs.classroom.student_edition.texts import student_notebook
from mini_vllm_labs.upkeep.launch_links.__main__ import write

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ADDRESS = "https://github.com/someone/labs"


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


def source(path: Path = NOTEBOOKS[0]) -> str:
    return "".join(cells(path)[1]["source"])


def test_every_notebook_begins_with_the_same_cell_for_colab() -> None:
    assert len({source(path) for path in NOTEBOOKS}) == 1
    first_imports = ["mini_vllm_labs" in "".join(cells(path)[2]["source"]) for path in NOTEBOOKS]
    assert first_imports == [True] * len(NOTEBOOKS), "the course is there before it is imported"


@pytest.mark.parametrize(("place", "added"), [("notebooks", [str(ROOT)]), ("docs/decks", [])])
def test_elsewhere_the_cell_names_the_notebooks_course_to_python_and_does_nothing_more(
    place: str, added: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: pytest.fail("a command was run"))
    monkeypatch.setattr(sys, "path", ["others"])
    monkeypatch.chdir(ROOT / place)
    names: dict[str, Any] = {}
    exec(source(), names)
    assert set(names) == {"__builtins__", "os", "sys"}
    assert (os.getcwd(), sys.path) == (str(ROOT / place), [*added, "others"])
    assert capsys.readouterr().out == ""


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """A stand-in for Colab: its module, a git that copies, and a pip that only records its arguments."""
    ran: list[list[str]] = []

    def run(command: list[str], *, check: bool) -> None:
        assert check
        ran.append(command)
        if command[0] == "git":
            Path(command[-1], "notebooks").mkdir(parents=True)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    return ran


def in_colab(folder: Path) -> None:
    code = source().replace('REPOSITORY = ""', f'REPOSITORY = "{ADDRESS}"')
    exec(code.replace("/content/mini-vllm-labs", str(folder)), {})


def test_in_colab_the_cell_clones_and_installs_and_says_so(
    commands: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_colab(tmp_path / "labs")
    clone, *installs = commands
    assert clone == ["git", "clone", "--quiet", "--depth=1", ADDRESS, str(tmp_path / "labs")]
    assert [command[:4] for command in installs] == [[sys.executable, "-m", "pip", "install"]] * len(installs)
    assert installs[-1][-3:] == ["--no-deps", "--editable", str(ROOT)]
    assert Path.cwd() == tmp_path / "labs" / "notebooks"
    assert sys.path[0] == str(tmp_path / "labs")
    said = capsys.readouterr().out
    assert [said.startswith(f"Cloning {ADDRESS}"), "Installing the course" in said, "Ready." in said] == [True] * 3
    in_colab(tmp_path / "labs")
    assert [command[0] for command in commands].count("git") == 1, "run again, it does not clone again"


@pytest.mark.usefixtures("commands")
def test_without_an_address_the_cell_says_what_to_set() -> None:
    with pytest.raises(ValueError, match="Set REPOSITORY in this cell"):
        exec(source(), {})


def test_colab_keeps_its_packages_and_gets_the_others_in_our_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"torch": "2.8.0+cu126", "transformers": "4.57.1", "numpy": "2.0.2", "ipykernel": "6.17.1"}

    def version_of(name: str) -> str:
        if name not in there:
            raise PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(colab, "version", version_of)
    missing = colab.lacking(["torch>=2.6", "transformers>=5", "numpy>=2", "anywidget>=0.9.21", "jupyterlab>=4.4"])
    assert missing == ["transformers>=5", "anywidget>=0.9.21"]
    pins = colab.pins_for((ROOT / "constraints.txt").read_text(encoding="utf-8"), missing)
    pinned = {Requirement(pin).name for pin in pins}
    assert {"transformers", "anywidget", "psygnal"} <= pinned
    assert not {"torch", "numpy", "ipykernel"} & pinned


def test_post_build_is_bash_whose_commands_are_there() -> None:
    script = ROOT / "postBuild"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    lines = [line.split() for line in script.read_text().splitlines() if line and not line.startswith(("#", "set "))]
    assert [line[0] for line in lines] == ["python", "mini-vllm"]
    assert lines[0][1:4] == ["-m", "compileall", "-q"]
    assert [folder for folder in lines[0][4:] if not (ROOT / folder).is_dir()] == []
    subprocess.run(
        [sys.executable, "-m", "mini_vllm_labs.cli", *lines[1][1:]], cwd=ROOT, check=True, capture_output=True
    )
    names = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    assert {"pip": ["-e .[judge,serve,structured]"]} in names, "which makes mini-vllm"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns(".*"))
    return tmp_path


def test_launch_links_are_written_and_written_again(copy: Path) -> None:
    write("https://github.com/before/long-ago.git", "old", copy)
    write(ADDRESS, "main", copy)
    readme = (copy / "README.md").read_text(encoding="utf-8")
    assert "(https://mybinder.org/v2/gh/someone/labs/main?urlpath=lab/tree/notebooks/00_tour.ipynb)" in readme
    assert "long-ago" not in readme
    for path in sorted((copy / "notebooks").glob("*.ipynb")):
        title = "".join(cells(path)[0]["source"])
        assert f"(https://colab.research.google.com/github/someone/labs/blob/main/notebooks/{path.name})" in title
        assert f'REPOSITORY = "{ADDRESS}"' in source(path)
        assert "long-ago" not in path.read_text(encoding="utf-8")
        ast.parse(source(path))


def test_a_student_edition_has_no_links_to_the_checkout_with_solutions(copy: Path) -> None:
    path = copy / "notebooks" / "00_tour.ipynb"
    untouched = student_notebook(path.read_bytes())
    write(ADDRESS, "main", copy)
    assert student_notebook(path.read_bytes()) == untouched
    assert b'REPOSITORY = \\"\\"' in untouched


@pytest.mark.parametrize("address", ["someone/labs", "https://example.org/a/b", "https://github.com/a/b/c"])
def test_only_an_address_on_github_is_taken(copy: Path, address: str) -> None:
    with pytest.raises(ValueError, match="but it must be https"):
        write(address, "main", copy)
