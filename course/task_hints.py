"""The hints of each task, in steps from a question to the recipe.

They lie in `hints.rot13` beside a handout, each letter turned by 13 places, so that nobody who reads a handout or
searches its folder meets a recipe by accident. `tr A-Za-z N-ZA-Mn-za-m` turns a file either way.
"""

import codecs
import json
import re
from dataclasses import dataclass
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT

FILE = "hints.rot13"
SEEN = CHECKOUT / ".hints_seen.json"
TASK = re.compile(r"^# (\d\.\d)\n", re.MULTILINE)
STEP = re.compile(r"^## ?(.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Hint:
    """One step: its title, which may be empty, and its text as Markdown."""

    title: str
    text: str


def readable(path: Path) -> str:
    """Return a file of hints as plain text: `# 1.2` before a task, `## title` before a step."""
    return codecs.decode(path.read_text(encoding="utf-8"), "rot13")


def all_hints(labs: Path = CHECKOUT / "labs") -> dict[str, list[Hint]]:
    """Return the steps of every task, such as "1.2"."""
    found = {}
    for path in sorted(labs.glob(f"phase*/{FILE}")):
        _, *parts = TASK.split(readable(path))
        for task, text in zip(parts[::2], parts[1::2], strict=True):
            _, *steps = STEP.split(text)
            found[task] = [Hint(*map(str.strip, step)) for step in zip(steps[::2], steps[1::2], strict=True)]
    return found


def num_seen(task: str) -> int:
    """Return how many steps of a task have been shown in this checkout."""
    return _seen().get(task, 0)


def note_seen(task: str, number: int) -> None:
    """Remember how many steps of a task have been shown."""
    SEEN.write_text(json.dumps(_seen() | {task: number}), encoding="utf-8")


def _seen() -> dict[str, int]:
    try:
        found: dict[str, int] = json.loads(SEEN.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found
