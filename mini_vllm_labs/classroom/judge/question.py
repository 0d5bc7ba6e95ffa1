"""Makes questions for a learner's file: a call for the worker, and the reference's answer, which only the judge
sees."""

import base64
import importlib
import math
import pickle
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mini_vllm_labs.classroom.judge.worker import RightAnswer
from mini_vllm_labs.classroom.worker.answers import Json, checked
from mini_vllm_labs.classroom.worker.drivers import DRIVERS
from mini_vllm_labs.classroom.worker.scenario import EngineScenario
from mini_vllm_labs.runs.starter_status import lab_folder

MAX_CASES = 60
TOLERANCE = 1e-4
MAX_CHARACTERS = 600


@dataclass(frozen=True)
class JudgeQuestion:
    """A driver with packed arguments for the worker, the right answers, and each question as text.

    The `calls` of a script are packed one by one, because the state of a later call reveals the answer to an earlier
    one.
    """

    phase: int
    driver: str
    arguments: str
    expected: list[Json]
    shown: Sequence[str] = ()
    scenario: EngineScenario | None = None
    calls: Sequence[str] = ()

    @cached_property
    def right(self) -> list[RightAnswer]:
        """The right messages of a worker: one for each call of a script, and one for its end."""
        return [*map(RightAnswer.of, [*self.expected[:-1], self.expected[-1:]] if self.calls else [self.expected])]


def reference(phase: int) -> Any:
    return importlib.import_module(f"solutions.{lab_folder(phase)}")


def question(
    phase: int, driver: str, *arguments: Any, shown: Sequence[str] = (), scenario: EngineScenario | None = None
) -> JudgeQuestion:
    """Build a question with the reference's answers."""
    expected = checked(DRIVERS[driver]({phase: reference(phase)}, *pickle.loads(pickle.dumps(arguments))))
    return JudgeQuestion(phase, driver, packed(arguments), expected, shown, scenario)


def packed(arguments: tuple[Any, ...]) -> str:
    """Pack the arguments of a driver into a string. The arguments are pickled, because the worker trusts the judge."""
    return base64.b64encode(zlib.compress(pickle.dumps(arguments), 1)).decode()


def same(expected: Json, found: Json) -> bool:
    """Return whether an answer is right: floats may differ by rounding, order matters, and any truthy value matches
    True.

    A string does not count as a truth value, because it describes how two answers to the same question differ.
    """
    if expected is found:
        return True
    if isinstance(expected, bool):
        return not isinstance(found, str | None) and expected is bool(found)
    if isinstance(expected, float):
        is_number = isinstance(found, int | float)
        return is_number and math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(expected, int) and isinstance(found, float):
        return False
    if isinstance(expected, list):
        if not isinstance(found, list) or len(expected) != len(found):
            return False
        if set(map(type, expected)) == {int}:  # a fast path: most values are in lists like this
            return expected == found and float not in map(type, found)
        return all(map(same, expected, found))
    if not isinstance(expected, dict) or not isinstance(found, dict):
        return bool(expected == found)
    if "raises" in expected:
        return bool(expected["raises"] == found.get("raises"))
    return list(expected) == list(found) and all(same(expected[key], found[key]) for key in expected)


def difference(asked: JudgeQuestion, found: list[Json]) -> str:
    if len(found) > len(asked.expected):
        return f"{asked.driver}: expected {len(asked.expected)} answers, got {len(found)}: {short(found)}"
    pairs = enumerate(zip(asked.expected, found, strict=False))
    number = next((number for number, pair in pairs if not same(*pair)), len(found))
    if number == len(found):
        return f"{asked.driver}: expected {len(asked.expected)} answers; yours end after {number}."
    lines = [f"Answer {number + 1} of {len(asked.expected)} is the first that differs."]
    lines += [f"  {short(text)}" for text in asked.shown[number : number + 1]]
    for label, ours, theirs in differing_parts("", asked.expected[number], found[number]):
        lines += [f"  {label}", f"    expected  {short(ours)}", f"    yours     {short(theirs)}"]
    return "\n".join(lines)


def differing_parts(label: str, expected: Json, found: Json) -> list[tuple[str, Json, Json]]:
    """Return (name, expected, found) for the innermost named parts that differ."""
    if isinstance(expected, dict) and isinstance(found, dict) and list(expected) == list(found):
        pairs = [(f"{label} {key}".strip(), expected[key], found[key]) for key in expected]
    elif label == "arguments" and isinstance(found, list) and len(expected) == len(found):
        pairs = [(f"argument {n}, afterwards", *pair) for n, pair in enumerate(zip(expected, found, strict=True), 1)]
    elif isinstance(expected, list) and names_of(expected) == names_of(found) != expected:
        pairs = [(f"{label}: {names_of(one)}", one, other) for one, other in zip(expected, found, strict=True)]
    else:
        return [(label or "result", names_of(expected), names_of(found))]
    return [
        part for name, ours, theirs in pairs if not same(ours, theirs) for part in differing_parts(name, ours, theirs)
    ]


def names_of(value: Json) -> Json:
    """Replace requests with their ids, including requests in lists."""
    if isinstance(value, list):
        return [names_of(one) for one in value]
    return value["request"] if isinstance(value, dict) and "request" in value else value


def short(value: Any, most: int = MAX_CHARACTERS) -> str:
    text = value if isinstance(value, str) else " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[:most]} ..."
