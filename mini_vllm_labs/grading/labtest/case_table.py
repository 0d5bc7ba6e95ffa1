"""Graded tests as tables: a phase's cases (`phaseN.toml`, and random ones), and the check of one.

A task is a table, or several: what a later one does not say is as in the first. `given` names what the play is given;
without it the play's parameters do.
A play returns all that it sees, or makes one call after another: it yields the call as a text, then what is seen.
Under `about` stand other rules and questions, by a pattern of what differs first: "what: yours, not expected", in
a second line all that differs, in a third one the call. Of an exception: "KeyError in free, evict: its text".
Outside of all tasks `about` is for each task without one.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from inspect import isgeneratorfunction, signature
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm_labs.grading.labtest.expect import Told, difference_report, explained, fail_with_smallest
from mini_vllm_labs.grading.labtest.failure import Failed, Report, Shares
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.runs.sandbox.frames import learners_frames

NUM_RANDOM = 60
QUOTED_KEY, KEY = re.compile(r"'(\w+)':"), r"\1:"
Seen = dict[str, object]


@cache
def groups(plays: ModuleType, number: int) -> list[dict[str, Any]]:
    """Return the tables of a task: they lie beside the module of the phase that plays their cases."""
    path = Path(str(plays.__file__).replace("_plays.py", ".toml"))
    tasks = tomllib.loads(path.read_text(encoding="utf-8"))
    told = tasks[str(number)]
    found = told if isinstance(told, list) else [told]
    return [{"about": tasks.get("about", {}), "given": ()} | found[0] | group for group in found]


def cases(plays: ModuleType, number: int) -> list[str]:
    """Return the names of a task's cases; the last one stands for `NUM_RANDOM` random ones."""
    return [*(name for group in groups(plays, number) for name in group["cases"]), "random"]


def check(plays: ModuleType, yours: ModuleType, answers: Answers, number: int, name: str) -> None:
    """Play the cases of a name, and compare all that is seen of each.

    Of random cases that make one call after another, the shortest that fails is reported.
    """
    told = next((one for one in groups(plays, number) if name in one["cases"]), groups(plays, number)[0])
    if name != "random":
        drawn = [told["cases"][name]]
    else:
        rng = Random(number)
        drawn = [plays.random_case(rng, number) for _ in range(getattr(plays, "NUM_RANDOM", NUM_RANDOM))]
    reports = (report_of(plays, yours, answers, told, given) for given in drawn)
    if name == "random" and isgeneratorfunction(getattr(plays, told["play"])):
        fail_with_smallest(reports)
    for report in filter(None, reports):
        raise Failed(report, report.parts)


def report_of(
    plays: ModuleType, yours: ModuleType, answers: Answers, told: dict[str, Any], given: Sequence[Any]
) -> Report:
    """Play a case; return the report of the first call after which something differs, or an empty text."""
    play = getattr(plays, told["play"])
    in_steps = isgeneratorfunction(play)
    calls = [] if in_steps else situation_of(plays, told, given)
    recorded = answers(lambda: list(steps_of(play(yours, *given), [])) if in_steps else play(yours, *given))
    try:
        with explained(calls, rule=told["rule"]):
            for seen, expected in zip(
                steps_of(play(yours, *given), calls), recorded if in_steps else [recorded], strict=True
            ):
                if seen != expected:
                    return difference_report(seen, expected, **about_difference(told, seen, expected, calls))
    except Exception as error:
        if question := about_error(told, error, calls):
            error.add_note(f"Hint: {question}")
        raise
    return Report()


def steps_of(played: Iterable[str | Seen] | Seen, calls: list[str]) -> Iterator[Seen]:
    """Yield what is seen after each call, and add the call and its answer to `calls`."""
    if isinstance(played, dict):
        yield played
        return
    for step in played:
        if isinstance(step, str):
            calls.append(step)
            continue
        name = calls[-1].partition("(")[0]
        calls[-1] += f"  -> {step[name]}" if name in step else ""
        yield step


def about_difference(told: dict[str, Any], seen: Seen, expected: Mapping[str, Any], calls: Sequence[str]) -> Told:
    """Return the rule and the question that fit what differs."""
    wrong = [label for label, right in expected.items() if seen.get(label) != right]
    first = [f"{one}: {seen.get(one)}, not {expected[one]}{arrangement(seen.get(one), expected[one])}" for one in wrong]
    sign = "\n".join([*first[:1], ", ".join(wrong), *calls[-1:]])
    found = next((about for pattern, about in told["about"].items() if re.search(pattern, sign)), told)
    return {
        "rule": found.get("rule", told["rule"]),
        "situation": calls,
        "hint": found["hint"],
        "shares": shares_of(seen, expected),
    }


def shares_of(seen: Seen, expected: Mapping[str, Any]) -> Shares | None:
    """Return what a notebook draws where a step was planned: "A:8", "B:2" as a list called "plan"."""
    if "plan" not in expected:
        return None
    right, found = ({name: int(num) for name, _, num in entries} for entries in map(entries_of, (expected, seen)))
    return Shares(right, found, sum(right.values()) + expected["budget left"])


def entries_of(seen: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    entries = (str(entry).rpartition(":") for entry in seen.get("plan", ()))
    return [entry for entry in entries if entry[2].isdecimal()]


def arrangement(yours: object, right: object) -> str:
    """Return how a list with the right entries differs from the expected one; lists may be the values of a dict."""
    if isinstance(yours, dict) and isinstance(right, dict) and yours.keys() == right.keys():
        return next(filter(None, (arrangement(yours[key], right[key]) for key in right)), "")
    if not isinstance(yours, list) or not isinstance(right, list) or yours == right:
        return ""
    if yours == right[::-1]:
        return " (the other way round)"
    return " (in another order)" if sorted(map(str, yours)) == sorted(map(str, right)) else ""


def about_error(told: dict[str, Any], error: Exception, calls: Sequence[str]) -> str:
    """Return the question that fits an exception of the learner's code, if there is one."""
    functions = ", ".join(frame.f_code.co_name for frame, _ in learners_frames(error.__traceback__))
    sign = "\n".join([f"{type(error).__name__} in {functions}: {error}", "", *calls[-1:]])
    return next((about["hint"] for pattern, about in told["about"].items() if re.search(pattern, sign)), "")


def situation_of(plays: ModuleType, told: dict[str, Any], given: Sequence[Any]) -> list[str]:
    """Return what a case is given, by name. Calls that `given` leaves out are named where their answers are."""
    names = told["given"] or list(signature(getattr(plays, told["play"])).parameters)[1:]
    values = (*given, *getattr(plays, "ALSO_GIVEN", ()))  # what every case of a play is given, if `given` names it
    return [f"{name}: {QUOTED_KEY.sub(KEY, str(value))}" for name, value in zip(names, values, strict=False)]
