"""Runs graded tests from tables: a phase's fixed cases are in `phaseN.toml`, and random cases are drawn.

A task has one or more tables; later tables inherit missing keys from the first. `given` names the play's arguments; by
default they have the names of the play's parameters. A play either returns all its observations at once, or makes
several calls: for each, it yields the call as text, then the observations. `about` maps patterns to different rules and
questions. A pattern is matched against three lines of text: the first difference ("what: yours, not expected"), the
names of all differences, and the call. For an exception, the first line has the form "KeyError in free, evict: its
text". A top-level `about` applies to each task without its own.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from inspect import isgeneratorfunction, signature
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm_labs.grading.hints import RULE
from mini_vllm_labs.grading.labtest.expect import (
    Told,
    difference_report,
    expect_equal,
    explained,
    fail_with_smallest,
)
from mini_vllm_labs.grading.labtest.failure import Failed, Report, Shares
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays.interruption import FIRST, LAST, interrupted
from mini_vllm_labs.grading.plays.support import plain_requests
from mini_vllm_labs.runs.sandbox.frames import learners_frames, short

NUM_RANDOM = 60
NUM_IN_BETWEEN, MAX_TOLD = 24, 4
IN_BETWEEN = "Objects share nothing: an object gives the same answers whatever other objects are used in the meantime."
AGAIN = "Equal calls give equal answers: this case was right when it was played before, and now it is not."
DEPENDS = "what does the answer depend on besides the arguments: chance, the time, or something that your code keeps?"
UNREAD = "Decisions depend only on the fields of a request that the rules mention."
WHICH_FIELD = (
    "your answer is right if no request has a tenant, an image, a service level, a seed, a temperature or logprobs. "
    "Which of these fields does your code read?"
)
WHERE_KEPT = "what does your code keep outside `self`: in the class, the module, a default argument or a cache?"
QUOTED_KEY, KEY = re.compile(r"'(\w+)':"), r"\1:"
Seen = dict[str, object]


@cache
def groups(plays: ModuleType, number: int) -> list[dict[str, Any]]:
    """Read a task's tables from the TOML file that belongs to the module of the phase's plays."""
    path = Path(__file__).with_name(Path(str(plays.__file__)).name.replace("_plays.py", ".toml"))
    tasks = tomllib.loads(path.read_text(encoding="utf-8"))
    told = tasks[str(number)]
    found = told if isinstance(told, list) else [told]
    return [{"about": tasks.get("about", {}), "given": ()} | found[0] | group for group in found]


def cases(plays: ModuleType, number: int) -> list[str]:
    """Return the names of a task's cases. The last one, "random", covers `NUM_RANDOM` random cases."""
    return [*(name for group in groups(plays, number) for name in group["cases"]), "random"]


def check(plays: ModuleType, yours: ModuleType, answers: Answers, number: int, name: str) -> None:
    """Play the cases that a name covers, and compare all observations with the recorded ones.

    If random cases consist of several calls, the shortest failing case is reported.
    """
    told = next((one for one in groups(plays, number) if name in one["cases"]), groups(plays, number)[0])
    if name != "random":
        drawn = [told["cases"][name]]
    else:
        rng = Random(number)
        drawn = [plays.random_case(rng, number) for _ in range(getattr(plays, "NUM_RANDOM", NUM_RANDOM))]
    play = getattr(plays, told["play"])
    recorded = list[list[Seen]]()
    reports = (report_of(plays, yours, answers, told, given, recorded) for given in drawn)
    if name == "random" and isgeneratorfunction(play):
        fail_with_smallest(reports)
    for report in filter(None, reports):
        raise Failed(report, report.parts)
    if name == "random":
        check_in_between(plays, yours, told, drawn, recorded)


def check_in_between(
    plays: ModuleType, yours: ModuleType, told: dict[str, Any], drawn: Sequence[Sequence[Any]], right: list[list[Seen]]
) -> None:
    """Play random cases again, each with a different random case run between two of its calls. Each case has already
    passed on its own."""
    play, rng = getattr(plays, told["play"]), Random(NUM_RANDOM)
    for (given, expected), (other, _) in islice(pairwise(zip(drawn, right, strict=True)), NUM_IN_BETWEEN):
        calls, meanwhile = list[str](), list[str]()
        about: Told = {"rule": AGAIN, "situation": calls, "hint": DEPENDS}

        def play_other(
            given: Sequence[Any] = other, calls: list[str] = calls, told_too: list[str] = meanwhile, about: Told = about
        ) -> None:
            about.update({"rule": IN_BETWEEN, "hint": WHERE_KEPT})
            told_too += situation_of(plays, told, given) if not isgeneratorfunction(play) else []
            list(steps_of(play(yours, *given), told_too))
            calls.append("(between two calls, a case with other objects was played:")
            calls.extend([*(f"   {short(line)}" for line in told_too[:MAX_TOLD]), "   ... to its end)"])

        if not isgeneratorfunction(play):
            calls += situation_of(plays, told, given)
        with explained(calls), interrupted(yours, rng.randint(FIRST, LAST), play_other):
            try:
                for seen, one in zip(steps_of(play(yours, *given), calls), expected, strict=True):
                    expect_equal(seen, one, **about)
            except Exception as error:
                error.add_note(f"{RULE}{about['rule']}")
                raise


def report_of(
    plays: ModuleType,
    yours: ModuleType,
    answers: Answers,
    told: dict[str, Any],
    given: Sequence[Any],
    kept: list[list[Seen]],
) -> Report:
    """Play a case; return the report of the first call with a difference, or an empty string. Right answers are added
    to `kept`."""
    play = getattr(plays, told["play"])
    in_steps = isgeneratorfunction(play)
    calls = [] if in_steps else situation_of(plays, told, given)
    recorded = answers(lambda: list(steps_of(play(yours, *given), [])) if in_steps else play(yours, *given))
    kept.append(recorded if in_steps else [recorded])
    try:
        with explained(calls, rule=told["rule"]):
            for seen, expected in zip(steps_of(play(yours, *given), calls), kept[-1], strict=True):
                if seen != expected:
                    about = about_difference(told, seen, expected, calls)
                    if depends_on_unread_fields(play, yours, given, kept[-1]):
                        about |= {"rule": UNREAD, "hint": WHICH_FIELD}
                    return difference_report(seen, expected, **about)
    except Exception as error:
        if question := about_error(told, error, calls):
            error.add_note(f"Hint: {question}")
        raise
    return Report()


def depends_on_unread_fields(play: Any, yours: ModuleType, given: Sequence[Any], right: Sequence[Seen]) -> bool:
    """Return whether a wrong answer becomes right if requests lack the fields that no rule mentions.

    With these fields, it must still be wrong.
    """

    def is_right() -> bool:
        with suppress(Exception):
            return list(steps_of(play(yours, *given), [])) == right
        return False

    with plain_requests():
        is_right_if_plain = is_right()
    return is_right_if_plain and not is_right()


def steps_of(played: Iterable[str | Seen] | Seen, calls: list[str]) -> Iterator[Seen]:
    """Yield the observations after each call, and add the call and its answer to `calls`."""
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
    """Return the rule and the question that match the differences."""
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
    """Return the shares that a notebook draws if the case planned a step: "A:8", "B:2" in a list called "plan"."""
    if "plan" not in expected:
        return None
    right, found = ({name: int(num) for name, _, num in entries} for entries in map(entries_of, (expected, seen)))
    return Shares(right, found, sum(right.values()) + expected["budget left"])


def entries_of(seen: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    entries = (str(entry).rpartition(":") for entry in seen.get("plan", ()))
    return [entry for entry in entries if entry[2].isdecimal()]


def arrangement(yours: object, right: object) -> str:
    """Describe how the order of a list with the right entries differs; lists may be values of a dict."""
    if isinstance(yours, dict) and isinstance(right, dict) and yours.keys() == right.keys():
        return next(filter(None, (arrangement(yours[key], right[key]) for key in right)), "")
    if not isinstance(yours, list) or not isinstance(right, list) or yours == right:
        return ""
    if yours == right[::-1]:
        return " (the other way round)"
    return " (in another order)" if sorted(map(str, yours)) == sorted(map(str, right)) else ""


def about_error(told: dict[str, Any], error: Exception, calls: Sequence[str]) -> str:
    """Return the question that matches an exception from the learner's code, or an empty string."""
    functions = ", ".join(frame.f_code.co_name for frame, _ in learners_frames(error.__traceback__))
    sign = "\n".join([f"{type(error).__name__} in {functions}: {error}", "", *calls[-1:]])
    return next((about["hint"] for pattern, about in told["about"].items() if re.search(pattern, sign)), "")


def situation_of(plays: ModuleType, told: dict[str, Any], given: Sequence[Any]) -> list[str]:
    """Return a case's arguments, each with its name. Calls that `given` omits are described together with their
    answers."""
    names = told["given"] or list(signature(getattr(plays, told["play"])).parameters)[1:]
    values = (*given, *getattr(plays, "ALSO_GIVEN", ()))  # arguments shared by all cases, if `given` names them
    return [f"{name}: {QUOTED_KEY.sub(KEY, str(value))}" for name, value in zip(names, values, strict=False)]
