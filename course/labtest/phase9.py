"""The graded tests of phase 9: their cases (`phase9.toml`, and random ones), and the check of one."""

import tomllib
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from course.labtest import phase9_plays
from course.labtest.expect import expect_equal, explained
from course.labtest.recorded import Answers

NUM_RANDOM = 60


@cache
def task(number: int) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))[str(number)]
    return found


def cases(number: int) -> list[str]:
    """Return the names of a task's cases; the last one stands for `NUM_RANDOM` random ones."""
    return [*task(number)["cases"], "random"]


def check(phase9: ModuleType, answers: Answers, number: int, name: str) -> None:
    """Play the cases of a name, and compare all that is seen of each."""
    told, rng = task(number), Random(number)
    drawn = [phase9_plays.random_case(rng, number) for _ in range(NUM_RANDOM)] if name == "random" else []
    for given in drawn or [told["cases"][name]]:
        situation = [f"{told['play']}: {', '.join(map(str, given))}"]
        with explained(situation, rule=told["rule"]):
            yours = getattr(phase9_plays, told["play"])(phase9, *given)
        expect_equal(yours, answers(yours), rule=told["rule"], situation=situation, hint=told["hint"])
