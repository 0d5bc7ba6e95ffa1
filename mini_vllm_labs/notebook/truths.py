"""Computes a question's true answer from an expression like `1:tokens_of B 0 - 0:tokens_of B 0` and a cell's runs."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from mini_vllm_labs.fresh.jobs import ChatRun, WorkloadRun
from mini_vllm_labs.notebook.result_facts import PictureFacts, PolicyFacts
from mini_vllm_labs.notebook.run_facts import RunFacts
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.policy_comparison import PolicyResult
from mini_vllm_labs.pictures.prediction import Answer, Question, checked_answer

NEAR = 0.02
NUMBER = re.compile(r"-?\d+")


def movement(now: float, before: float) -> int:
    """Return 0 for a decrease, 1 for a change of at most 2%, and 2 for an increase."""
    return 1 if abs(now - before) <= NEAR * abs(before) else 2 * (now > before)


EQUALITIES: Mapping[str, Callable[[Any, Any], Any]] = {"==": operator.eq, "!=": operator.ne}
OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "and": operator.and_,
    **EQUALITIES,
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, "~": movement},
    **{"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv},
}
"""From the one that binds least. `~` compares two figures: less, about the same, more."""


def fact(line: str, runs: Sequence[Any]) -> Any:
    """Evaluate an expression on the runs.

    `tokens 0` is a fact of the first run, `1:tokens 0` is the same fact of the second run, and `1:` is the second run
    itself. A vertical bar selects a part of the value before it, as in `verdicts 5 | 0 | kept`. `most ...` is the index
    of the run in which the fact is largest, and `any ...` is whether the fact differs between runs. A list counts as
    its length. Raises `LookupError` for an event that did not happen.
    """
    for sign, operate in OPERATORS.items():
        left, found, right = line.rpartition(f" {sign} ")
        if found:
            values = [fact(side, runs) for side in (left, right)]
            return operate(*(values if sign in EQUALITIES else map(counted, values)))
    quantifier, _, named = line.partition(" ")
    if quantifier in ("most", "any"):
        all_of_them = [fact(f"{place}:{named}", runs) for place in range(len(runs))]
        if quantifier == "any":
            return any(one != all_of_them[0] for one in all_of_them)
        return all_of_them.index(max(all_of_them))
    if re.fullmatch(r"[\d.]+", line):
        return float(line)
    place, called = re.fullmatch(r"(?:(\d+):)?(.*)", line).groups()  # type: ignore[union-attr]
    return reduce(part, filter(None, called.split(" | ")), runs[int(place or 0)])


def part(value: Any, words: str) -> Any:
    """Return a part of a value: an item by index or key, an attribute, or the result of a method."""
    name, *arguments = words.split(" ")
    if NUMBER.fullmatch(name):
        place = int(name)
        return list(value.values())[place] if isinstance(value, Mapping) and place not in value else value[place]
    found = value[name] if isinstance(value, Mapping) or ":" in name else getattr(value, name)
    return found(*[int(word) if NUMBER.fullmatch(word) else word for word in arguments]) if callable(found) else found


def counted(value: Any) -> Any:
    return len(value) if isinstance(value, list | str) else value


def true_answer(question: Question, line: str, runs: Sequence[Any]) -> Answer | None:
    """Return the true answer that the expression gives, or None if the runs do not show it.

    If the answer is an index, it stands for the option with that index.
    """
    try:
        answer = fact(line, runs)
        if question.kind == "number":
            answer = counted(answer)
        elif isinstance(answer, list) and question.kind == "choice":
            answer = answer[0]
        elif isinstance(answer, bool) and "true" in question.options:
            answer = str(answer).lower()
        elif isinstance(answer, int):
            answer = question.options[not answer if isinstance(answer, bool) else answer]
        return checked_answer(question, answer)
    except (LookupError, ZeroDivisionError, ValueError):
        return None


def facts_of(run: Any) -> list[Any]:
    """Return the facts of a run; a list counts as several runs, except that policy results count as one."""
    if isinstance(run, WorkloadRun | ChatRun):
        return [RunFacts(run)]
    if isinstance(run, Picture):
        return [PictureFacts(run)]
    if isinstance(run, list):
        if isinstance(run[0], PolicyResult):
            return [PolicyFacts(run)]
        return [RunFacts(one) if isinstance(one, WorkloadRun) else one for one in run]
    return [run]
