"""The record of a run: a line per submission, written once it is graded, so that an interruption loses nothing."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

from classroom.judge.judge import JudgeSettings
from classroom.judge.report import write_whole
from classroom.judge.results import SubmissionResult

VERSION = 1


class RecordedResult(TypedDict):
    """What is known of a graded submission. `digests` are the SHA-256 of its files, by phase."""

    summary: SubmissionResult
    feedback: str
    seconds: float
    digests: dict[str, str]


class RecordError(ValueError):
    """The file is not the record of a run."""


class Record:
    """Results by name, kept in a file or, without one, in memory alone. The settings are those of a file's run."""

    def __init__(self, settings: JudgeSettings, path: Path | None = None) -> None:
        self._path = path
        self.results: dict[str, RecordedResult] = {}
        if path is not None and path.exists():
            self._read(path)
        elif path is not None:
            write_whole(path, json.dumps({"version": VERSION, "settings": asdict(settings)}) + "\n")

    def add(self, name: str, result: RecordedResult) -> None:
        """Keep a result; it is on the disk when this returns."""
        self.results[name] = result
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(json.dumps({"name": name, "result": result}).encode() + b"\n")
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
                raise RecordError(f"{path}, line {number}, is not a result: {error}") from None
        if cut_short:
            with path.open("r+b") as file:
                file.truncate(path.stat().st_size - len(cut_short))


def recorded_settings(path: Path) -> JudgeSettings:
    """Return the settings of a record. Raises `RecordError` if the file is not a record."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline())
        if head["version"] != VERSION:
            raise RecordError(f"{path} was written by another version of the judge")
        return JudgeSettings.from_json(head["settings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{path} is not a record of the judge: {error}") from None
