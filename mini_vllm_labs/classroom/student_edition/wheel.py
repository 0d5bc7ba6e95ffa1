"""Builds the wheel `mini-vllm-labs`, which contains the engine, the learner's folder as an archive, and its
launcher."""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.packages import COURSE
from mini_vllm_labs.classroom.student_edition.learner_folder import MOVED, arranged
from mini_vllm_labs.classroom.student_edition.texts import ReleaseError

KERNEL = "mini_vllm_labs/notebook/kernel/"
SETTINGS = Path(__file__).with_name("wheel.toml")
TESTED = Path(__file__).with_name("tested.txt")  # packages that every platform needs, directly or indirectly
GRADES = ("pytest", "pytest-timeout")  # the part of the `test` extra that `mini-vllm grade` and `pytest labs` need
BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"


def build(edition: Mapping[str, bytes], folder: Path) -> Path:
    """Build the wheel into a folder, which is created if missing, and return its path. Building the wheel needs no
    network access.

    Raises `ReleaseError` with setuptools' last output if the build fails.
    """
    if folder.exists() and not folder.is_dir():
        raise ReleaseError(f"{folder} is a file: name a folder for the wheel")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place)
        lay_out(edition, tree)
        command = [sys.executable, "-c", BUILD, str(folder.resolve())]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"setuptools did not build a wheel: {done.stderr.strip()[-500:]}")
    return folder / done.stdout.split()[-1]


def lay_out(edition: Mapping[str, bytes], tree: Path) -> None:
    """Write the source tree from which setuptools builds the wheel."""
    package, folder = tree / COURSE, arranged(edition)
    shutil.copytree(CHECKOUT / COURSE / "launcher", package / "launcher", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / COURSE / "__init__.py", package)
    with ZipFile(package / "edition.zip", "w", ZIP_DEFLATED) as archive:
        for path in sorted(folder):
            archive.writestr(ZipInfo(path), folder[path], ZIP_DEFLATED)  # the date is always the same
    for path in (path for path in folder if path.startswith("mini_vllm/")):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(folder[path])
    project = tomllib.loads(edition["pyproject.toml"].decode())["project"]
    needed, extras = needed_by_learners(project), project["optional-dependencies"]
    shutil.copy(SETTINGS, tree / "pyproject.toml")
    for path in ("README.md", MOVED["LICENSE"], *(path for path in folder if path.startswith(KERNEL))):
        (tree / Path(path).name).write_bytes(folder[path])
    names, pins = TESTED.read_text(encoding="utf-8").split(), edition["constraints.txt"].decode().split()
    extras |= {"tested": [pin for pin in pins if pin.partition("==")[0] in names]}
    lists = {"version": [project["version"]], "needed": needed, **extras}
    for name, lines in lists.items():
        (tree / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = "".join(f'{name} = {{ file = "{name}.txt" }}\n' for name in extras)
    with (tree / "pyproject.toml").open("a", encoding="utf-8") as settings:
        settings.write(f"\n[tool.setuptools.dynamic.optional-dependencies]\n{files}")


def needed_by_learners(project: Mapping[str, Any]) -> list[str]:
    """Return the wheel's requirements: the project's own, and the test requirements that grading needs."""
    graded_with = tuple(f"{name}>" for name in GRADES)
    tools = (need for need in project["optional-dependencies"]["test"] if need.startswith(graded_with))
    return [*tools, *project["dependencies"]]
