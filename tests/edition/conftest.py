"""A student edition to read from, and copies of it to write to."""

import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.student_edition.edition import compose, write
from mini_vllm_labs.classroom.student_edition.learner_folder import arranged


def clean_environment(**more: str) -> dict[str, str]:
    """Return this environment without a lineup and without variables set by this pytest run, plus `more`."""
    return {k: v for k, v in os.environ.items() if k != "LAB_IMPL" and not k.startswith("PYTEST_")} | more


@cache
def without_solutions() -> str:
    """Return a folder that, when on PYTHONPATH, hides this checkout's installed `solutions`."""
    folder = Path(mkdtemp())
    (folder / "solutions.py").write_text("raise ModuleNotFoundError('a student edition has no solutions')\n")
    return str(folder)


def module_at(path: Path, name: str) -> ModuleType:
    """Run a file as a module with a unique name."""
    spec: Any = spec_from_file_location(name, path)
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m ...` in a folder, as the two commands of a student edition do.

    A folder without `solutions/` has no solutions, even though those of this checkout are installed.
    """
    path = os.pathsep.join(filter(None, [environment.pop("PYTHONPATH", ""), without_solutions()]))
    environment = clean_environment(COLUMNS="100", PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=path, **environment)
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def edition() -> dict[str, bytes]:
    return compose()


@pytest.fixture(scope="session")
def learners_files(edition: dict[str, bytes]) -> dict[str, bytes]:
    """A folder that `mini-vllm start` has written."""
    return arranged(edition)


@pytest.fixture(scope="session")
def student(edition: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("student") / "edition"
    write(edition, folder)
    return folder


@pytest.fixture
def learner(student: Path, tmp_path: Path) -> Path:
    """A copy to write to, without the model's weights."""
    return Path(shutil.copytree(student, tmp_path / "learner", ignore=shutil.ignore_patterns("*.safetensors", "*.gz")))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel that a plain `pip install` of the checkout builds."""
    folder = tmp_path_factory.mktemp("wheel") / "dist"
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(CHECKOUT)], check=True)
    (built,) = folder.iterdir()
    return built
