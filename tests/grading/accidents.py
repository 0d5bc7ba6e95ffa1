"""Accidents in submissions, from `accidents.yaml`: each is one change to a solved starter, with the expected grade."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.grading.checkout import solution, with_line


@dataclass(frozen=True)
class Accident:
    """A change to a solved `phase`: text added `first` or `last`, a `line` put into a function, or text `replaced`.

    `encoding` is None if there is no file. Tasks in `spared` keep all points; tasks in `charged` lose some. `message`
    is part of a test's message, or of the phase's error if `error` says that nothing in it can be graded.
    """

    name: str
    phase: int
    first: str = ""
    last: str = ""
    line: Sequence[str] = ()
    replaced: Sequence[str] = ()
    encoding: str | None = "utf-8"
    message: str = ""
    spared: Sequence[int] = ()
    charged: Sequence[int] = ()
    error: bool = False

    def content(self) -> bytes | None:
        """Return the learner's file, or None if there is none."""
        text = self.first + solution(self.phase) + self.last
        if self.line:
            text = with_line(text, *self.line)
        if self.replaced:
            old, new = self.replaced
            text = text.replace(old, new)
        return None if self.encoding is None else text.encode(self.encoding)


FILE = Path(__file__).with_suffix(".yaml")
ACCIDENTS = [Accident(**each) for each in yaml.safe_load(FILE.read_text(encoding="utf-8"))]
