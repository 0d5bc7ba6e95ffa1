"""Graded tests as tables: a phase's cases (`phaseN.toml`, and random ones), and the check of one.

A task is a table, or several: what a later one does not say is as in the first. `given` names what the play is given;
without it the play's parameters do.
Under `about` stand other rules and questions, by a pattern of what differs first: "what: yours, not expected", and in
a second line all that differs.
"""

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from inspect import signature
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from course.labtest.expect import expect_equal, explained
from course.labtest.recorded import Answers

NUM_RANDOM = 60
QUOTED_KEY, KEY = re.compile(r"'(\w+)':"), r"\1:"


@cache
def groups(plays: ModuleType, number: int) -> list[dict[str, Any]]:
    """Return the tables of a task: they lie beside the module of the phase that plays their cases."""
    path = Path(str(plays.__file__).replace("_plays.py", ".toml"))
    told = tomllib.loads(path.read_text(encoding="utf-8"))[str(number)]
    found = told if isinstance(told, list) else [told]
    return [{"about": {}, "given": ()} | found[0] | group for group in found]


def cases(plays: ModuleType, number: int) -> list[str]:
    """Return the names of a task's cases; the last one stands for `NUM_RANDOM` random ones."""
    return [*(name for group in groups(plays, number) for name in group["cases"]), "random"]


def check(plays: ModuleType, yours: ModuleType, answers: Answers, number: int, name: str) -> None:
    """Play the cases of a name, and compare all that is seen of each."""
    told = next((one for one in groups(plays, number) if name in one["cases"]), groups(plays, number)[0])
    rng = Random(number)
    drawn = [plays.random_case(rng, number) for _ in range(NUM_RANDOM)] if name == "random" else []
    for given in drawn or [told["cases"][name]]:
        situation = situation_of(plays, told, given)
        with explained(situation, rule=told["rule"]):
            seen = getattr(plays, told["play"])(yours, *given)
        expected = answers(seen)
        about = told
        if isinstance(seen, dict) and seen != expected and told["about"]:
            wrong = [label for label, right in expected.items() if seen.get(label) != right]
            first = [f"{label}: {seen.get(label)}, not {expected[label]}" for label in wrong[:1]]
            differs = "\n".join([*first, ", ".join(wrong)])
            about = next((about for sign, about in told["about"].items() if re.search(sign, differs)), told)
        expect_equal(seen, expected, rule=about["rule"], situation=situation, hint=about["hint"])


def situation_of(plays: ModuleType, told: dict[str, Any], given: Sequence[Any]) -> list[str]:
    """Return what a case is given, by name. Calls that `given` leaves out are named where their answers are."""
    names = told["given"] or list(signature(getattr(plays, told["play"])).parameters)[1:]
    values = (*given, *getattr(plays, "ALSO_GIVEN", ()))  # what every case of a play is given, if `given` names it
    return [f"{name}: {QUOTED_KEY.sub(KEY, str(value))}" for name, value in zip(names, values, strict=False)]
