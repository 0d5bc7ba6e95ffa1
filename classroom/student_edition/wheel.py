"""The wheel `mini-vllm-labs`: the student edition as one archive beside the launcher that unpacks it."""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from classroom.student_edition.texts import ReleaseError
from mini_vllm.assembly.lineup import CHECKOUT

LAUNCHER = CHECKOUT / "mini_vllm_labs"
SETTINGS = Path(__file__).with_name("wheel.toml")
GRADES = ("pytest", "pytest-timeout")  # of the extra `test`: what `mini-vllm grade` and `pytest labs` need
BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"


def build(edition: Mapping[str, bytes], folder: Path) -> Path:
    """Build the wheel into a folder, which is made if it is not there, and return its path. Needs no network.

    Raises `ReleaseError` with setuptools' last lines if it cannot be built.
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
        raise ReleaseError(f"setuptools built no wheel: {done.stderr.strip()[-500:]}")
    return folder / done.stdout.split()[-1]


def lay_out(edition: Mapping[str, bytes], tree: Path) -> None:
    """Write what setuptools builds the wheel from."""
    package = tree / LAUNCHER.name
    package.mkdir()
    for source in LAUNCHER.glob("*.py"):
        shutil.copy(source, package)
    with ZipFile(package / "edition.zip", "w", ZIP_DEFLATED) as archive:
        for path in sorted(edition):
            archive.writestr(ZipInfo(path), edition[path], ZIP_DEFLATED)  # always of the same date
    project = tomllib.loads(edition["pyproject.toml"].decode())["project"]
    extras = project["optional-dependencies"]
    needed = [need for need in extras["test"] if need.startswith(tuple(f"{name}>" for name in GRADES))]
    shutil.copy(SETTINGS, tree / "pyproject.toml")
    for name in ("README.md", "LICENSE"):
        (tree / name).write_bytes(edition[name])
    config = edition["course/notebook/ipython_kernel_config.json"]
    (tree / "ipython_kernel_config.json").write_bytes(config)
    lists = {"version": [project["version"]], "needed": [*project["dependencies"], *needed]}
    for name, lines in (lists | {name: extras[name] for name in ("serve", "structured")}).items():
        (tree / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
