"""Graded tests as tables: a phase's cases (`phaseN.toml`, and random ones), and the check of one."""

import tomllib
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from course.labtest.expect import expect_equal, explained
from course.labtest.recorded import Answers

NUM_RANDOM = 60


@cache
def task(plays: ModuleType, number: int) -> dict[str, Any]:
    """Return the table of a task: it lies beside the module of the phase that plays its cases."""
    path = Path(str(plays.__file__).replace("_plays.py", ".toml"))
    found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))[str(number)]
    return found


def cases(plays: ModuleType, number: int) -> list[str]:
    """Return the names of a task's cases; the last one stands for `NUM_RANDOM` random ones."""
    return [*task(plays, number)["cases"], "random"]


def check(plays: ModuleType, yours: ModuleType, answers: Answers, number: int, name: str) -> None:
    """Play the cases of a name, and compare all that is seen of each."""
    told, rng = task(plays, number), Random(number)
    drawn = [plays.random_case(rng, number) for _ in range(NUM_RANDOM)] if name == "random" else []
    for given in drawn or [told["cases"][name]]:
        situation = [f"{told['play']}: {', '.join(map(str, given))}"]
        with explained(situation, rule=told["rule"]):
            seen = getattr(plays, told["play"])(yours, *given)
        expect_equal(seen, answers(seen), rule=told["rule"], situation=situation, hint=told["hint"])
