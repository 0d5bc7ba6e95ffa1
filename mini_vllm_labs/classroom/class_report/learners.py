"""Reads the histories in a class's folder, and summarises what each learner did. The histories' contents are
untrusted."""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from mini_vllm_labs.classroom.judge.report import file_name
from mini_vllm_labs.classroom.worker.text import one_line
from mini_vllm_labs.grading.history import NAME
from mini_vllm_labs.grading.plan import load_whole_plan

MAX_BYTES = 2**20
# a longer gap between two events counts as this long, because the learner was probably doing something else
PAUSE = 20 * 60


@dataclass
class TaskHistory:
    """A learner's tries, minutes and hints until the first pass, and the first rule that each try broke."""

    tries: int = 0
    minutes: float = 0.0
    hints: int = 0
    has_passed: bool = False
    rules: set[str] = field(default_factory=set)


@dataclass
class Learner:
    """A learner: their tasks, the questions that they missed, and the task at which they stopped, if any."""

    name: str
    tasks: dict[str, TaskHistory] = field(default_factory=dict)
    missed: set[str] = field(default_factory=set)
    stopped: str = ""


def read_class(folder: Path) -> list[Learner]:
    """Return the learners who have a history. Raises `ValueError` if there are no such learners."""
    tasks = {f"{phase.number}.{task.number}" for phase in load_whole_plan() for task in phase.tasks}
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [learner_of(file_name(path.stem), events) for path in entries if (events := list(events_in(path, tasks)))]
    if not found:
        raise ValueError(f"{folder} has no {NAME}: name a folder that contains a folder or a zip for each learner")
    return found


def events_in(entry: Path, tasks: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the events in a folder, zip or file in chronological order, skipping events that the course did not
    write."""
    events = []
    for line in text_of(entry).splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and type(event.get("at")) is int:
            subject = event.get("task", event.get("question"))
            events += [event] if isinstance(subject, str) and ("task" not in event or subject in tasks) else []
    yield from sorted(events, key=lambda event: int(event["at"]))


def text_of(entry: Path) -> str:
    """Return the history from a folder, zip or file, or an empty string if none can be read."""
    try:
        if entry.is_dir():
            paths = [path for path in sorted(entry.rglob(NAME)) if path.is_file() and not path.is_symlink()]
            entry = paths[0] if paths else entry / NAME
        if entry.suffix.lower() == ".zip":
            with zipfile.ZipFile(entry) as archive:
                names = [name for name in archive.namelist() if PurePosixPath(name).name == NAME]
                content = archive.open(names[0]).read(MAX_BYTES) if names else b""
        elif entry.suffix == ".jsonl":
            with entry.open("rb") as file:
                content = file.read(MAX_BYTES)
        else:
            return ""
    except Exception:  # `zipfile` raises various errors for a damaged file
        return ""
    return content.decode("utf-8", "replace")


def learner_of(name: str, events: list[dict[str, Any]]) -> Learner:
    """Summarise a learner's events, given in chronological order."""
    learner, before = Learner(one_line(name)), int(events[0]["at"])
    for event in events:
        if event.get("what") == "missed":
            learner.missed.add(one_line(event["question"]))
        if "task" not in event:
            continue
        task = learner.tasks.setdefault(event["task"], TaskHistory())
        if task.has_passed:
            continue
        learner.stopped = event["task"]
        task.minutes += min(event["at"] - before, PAUSE) / 60
        before = event["at"]
        if event.get("what") == "hint":
            task.hints += 1
        elif event.get("what") == "graded":
            task.tries += 1
            task.has_passed = event.get("passed") is True
            if isinstance(event.get("rule"), str):
                task.rules.add(one_line(event["rule"]))
    if learner.stopped and learner.tasks[learner.stopped].has_passed:
        learner.stopped = ""
    return learner
