"""A student edition to look at, and copies of it to write in."""

import shutil
from pathlib import Path

import pytest

from classroom.student_edition.edition import compose, write


@pytest.fixture(scope="session")
def edition() -> dict[str, bytes]:
    return compose()


@pytest.fixture(scope="session")
def student(edition: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("student") / "edition"
    write(edition, folder)
    return folder


@pytest.fixture
def learner(student: Path, tmp_path: Path) -> Path:
    """A copy to write in, without the model's weights."""
    return Path(shutil.copytree(student, tmp_path / "learner", ignore=shutil.ignore_patterns("*.safetensors", "*.gz")))
