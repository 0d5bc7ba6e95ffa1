"""A question to functions of a phase: the input, and the reference's answer."""

import importlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from classroom.judge.worker import lab_folder
from classroom.worker.drivers import DRIVERS
from classroom.worker.encoding import Exported

MAX_CASES = 60


def same(expected: Any, found: Any) -> bool:
    """Return whether two plain values are equal; a tuple is as good as a list, True as good as 1."""
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return len(expected) == len(found) and all(map(same, expected, found))
    return bool(expected == found)


@dataclass(frozen=True)
class Trial:
    """One question: a driver, its arguments, the right answer, and when an answer equals it."""

    phase: int
    driver: str
    arguments: tuple[Any, ...]
    expected: list[Any]
    equal: Callable[[Any, Any], bool] = same


def trial(phase: int, driver: str, *arguments: Any, equal: Callable[[Any, Any], bool] = same) -> Trial:
    """Compute the reference's answer and return it with the question."""
    reference = importlib.import_module(f"solutions.{lab_folder(phase)}")
    here = [argument.thing if isinstance(argument, Exported) else deepcopy(argument) for argument in arguments]
    return Trial(phase, driver, arguments, DRIVERS[driver](reference, *here), equal)
