"""Hints for known mistakes. A mistake is recognised by all the wrong answers that it gives to a task's tests.

`recorded_hints/phaseN.json` maps a task and the digest of those answers to the hint. The file is recorded by running
every known mistake on the graded tests. If two mistakes give the same answers but have different hints, neither is
recorded. If there is no hint, a failure keeps its test's question.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).with_name("recorded_hints")
HINT = "\nHint: "
RULE = "The rule of this test: "
FLOAT = re.compile(r"-?\d+\.\d+(e[-+]?\d+)?")
ADDRESS = re.compile(r"0x[0-9a-f]+")


def answer_of(error: BaseException) -> str:
    """Digest a failed test's output without its rule and question; the digest is the same on every machine."""
    parts = getattr(error, "parts", None)
    if parts is not None:
        shown = [*parts.situation, *(text for row in parts.rows for text in row), *parts.calls]
    elif isinstance(error, AssertionError):  # pytest's options determine how much text it writes
        shown = ["AssertionError"]
    else:
        notes = "\n".join([str(error), *getattr(error, "__notes__", [])]).partition(HINT)[0].splitlines()
        shown = [type(error).__name__, *(line for line in notes if not line.startswith(RULE))]
    text = FLOAT.sub(lambda number: f"{float(number[0]):.2g}", "\n".join(shown))
    return digest(ADDRESS.sub("", text))


def digest_of_task(answers: Mapping[str, str]) -> str:
    """Return one digest of a task's wrong answers; `answers` maps a test's id to `answer_of` its failure."""
    return digest(json.dumps(sorted(answers.items())))  # tests may run in any order


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]  # a text may contain a lone surrogate


@cache
def recorded(phase: int) -> dict[str, dict[str, str]]:
    """Return a phase's hints, keyed by task, such as "5.1", and then by digest."""
    path = FOLDER / f"phase{phase}.json"
    hints: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return hints


def hint_for(task: str, answers: Mapping[str, str]) -> str:
    """Return the hint for all the wrong answers to a task, or "" if no known mistake gives these answers."""
    return recorded(int(task.partition(".")[0])).get(task, {}).get(digest_of_task(answers), "") if answers else ""


def with_hint(text: str, hint: str) -> str:
    """Replace the question in the text of a failure with `hint`, unless it is empty."""
    return text.rstrip().partition(HINT)[0] + HINT + hint if hint else text
