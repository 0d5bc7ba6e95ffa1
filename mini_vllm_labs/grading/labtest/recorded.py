"""Provides the reference's recorded answers to the cases of a graded test, in order.

The recorded answers save the tests from needing a second implementation, which would reveal the solution. `python -m
tests.mutants.answers` records them.
"""

import base64
import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("recorded_answers")
MIN_PACKED = 5000


class Answers:
    """The recorded answers of one test, `test_task7_1_lookup.py::test_name[case]`."""

    def __init__(self, test: str) -> None:
        self.test = test
        self.restart()

    def restart(self) -> None:
        """Start again with the first case."""
        self._left = iter(unpacked(recorded(file_of(self.test)).get(self.test, [])))

    def __call__(self, yours: object) -> Any:
        """Return the right answer to the next case.

        Recording uses `yours`, which is an answer or a function that returns one.
        """
        for answer in self._left:
            return answer
        raise LookupError(f"{self.test} has more cases than were recorded; run python -m tests.mutants.answers")


def file_of(test: str) -> str:
    """Return the path of the file with a test's answers. Whole engines have separate files, because their answers are
    large."""
    engine = "_in_an_engine" if "_in_an_engine.py" in test else ""
    return f"phase{test.removeprefix('test_task').partition('_')[0]}{engine}.json"


@cache
def recorded(file: str) -> dict[str, list[Any] | str]:
    """Return the answers in a file, keyed by test; long ones are compressed."""
    path = FOLDER / file
    answers: dict[str, list[Any] | str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return answers


def packed(cases: list[Any]) -> list[Any] | str:
    """Return a test's answers in the format of the file; long answers, which nobody reads, become compressed text."""
    text = json.dumps(cases)
    return cases if len(text) < MIN_PACKED else base64.b85encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(cases: list[Any] | str) -> list[Any]:
    if isinstance(cases, str):
        cases = json.loads(zlib.decompress(base64.b85decode(cases)))
    return list(cases)
