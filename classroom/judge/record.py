"""The record of a run: a line per submission, written when it is done, so that an end at any time loses nothing."""

import json
import os
from pathlib import Path
from typing import Any, TypedDict

from classroom.judge.report import write_whole
from classroom.judge.settings import Settings
from classroom.judge.summary import SubmissionSummary

VERSION = 1


class Result(TypedDict):
    """What is known of a graded submission. `digests` are the SHA-256 of its files, by phase."""

    summary: SubmissionSummary
    feedback: str
    seconds: float
    digests: dict[str, str]


class RecordError(ValueError):
    """The file is no record of a run."""


class Record:
    """Results by name, kept in a file or, without one, in memory alone. The settings are those of a file's run."""

    def __init__(self, settings: Settings, path: Path | None = None) -> None:
        self._path = path
        self.results: dict[str, Result] = {}
        if path is None:
            return
        if path.exists():
            self._read(path)
        else:
            write_whole(path, json.dumps({"version": VERSION, "settings": settings.as_json()}) + "\n")

    def finished(self, name: str, digests: dict[str, str]) -> Result | None:
        """Return the result of a submission that has been graded with these very files."""
        result = self.results.get(name)
        return result if result is not None and result["digests"] == digests else None

    def add(self, name: str, result: Result) -> None:
        """Keep a result; it is on the disk when this returns."""
        self.results[name] = result
        if self._path is not None:
            self._append({"name": name, "result": result})

    def _append(self, line: dict[str, Any]) -> None:
        assert self._path is not None
        with self._path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self, path: Path) -> None:
        lines = path.read_bytes().split(b"\n")
        cut_short = lines.pop()  # empty, unless the run was killed while it wrote
        for number, line in enumerate(lines[1:], start=2):
            try:
                entry = json.loads(line)
                self.results[entry["name"]] = entry["result"]
            except (ValueError, KeyError, TypeError) as error:
                raise RecordError(f"{path}, line {number}, is no result: {error}") from None
        if cut_short:
            with path.open("r+b") as file:
                file.truncate(path.stat().st_size - len(cut_short))


def recorded_settings(path: Path) -> Settings:
    """Return the settings of a record. Raises `RecordError` if the file is none."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline())
        if head["version"] != VERSION:
            raise RecordError(f"{path} was written by another version of the judge")
        return Settings.from_json(head["settings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{path} is not a record of the judge: {error}") from None
