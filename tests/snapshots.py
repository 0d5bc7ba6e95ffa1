"""Snapshots: text that a test produces, compared with a file in the folder `snapshots` next to the test.

`pytest --update-snapshots PATH` rewrites the files; then read the changes in the diff.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

OPTION = "--update-snapshots"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="write the snapshots anew instead of comparing with them")


@dataclass(frozen=True)
class Snapshots:
    folder: Path
    is_update: bool

    def check(self, name: str, text: str) -> None:
        path = self.folder / f"{name}.txt"
        if self.is_update:
            self.folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.exists(), f"there is no {path.name}: run this test with {OPTION} and review the file"
        assert text == path.read_text(encoding="utf-8"), f"if this is meant: {OPTION}, and review the diff"

    def names(self) -> set[str]:
        return {path.stem for path in self.folder.glob("*.txt")}


@pytest.fixture
def snapshots(request: pytest.FixtureRequest) -> Snapshots:
    return Snapshots(request.path.parent / "snapshots", request.config.getoption(OPTION))
