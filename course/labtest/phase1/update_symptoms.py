"""Mistakes of `update_from_output` that show in what happened: a better rule and hint than those of the test."""

import re
from collections.abc import Mapping, Sequence

from course.labtest.phase1.advice import Advice

NEW_LIST = (
    "RUNNING is the caller's list: what leaves it must leave that very list.",
    "the caller's list still holds every request. Does your code change it, or make a new list under the same name?",
)
LEFT_OVER = (
    "All finished requests leave RUNNING.",
    "{names} is finished and still there. What does a loop over a list do when entries are taken out on the way?",
)
NOT_FREED = (
    "A finished request gives its blocks back at once, whichever way it ended.",
    "{names} is finished, and its blocks are still held. Which call gives them back?",
)
ARGUMENTS = (
    "update_from_output changes requests and RUNNING. The plan, the sampled tokens and `requests` belong to the "
    "caller, who goes on with them.",
    "changed by your call: {names}. Which line does that, and what could it change instead?",
)
FREED_WITH = (
    "kv.free is given the number of tokens that are computed, which is the request's counter: blocks behind it leave "
    "the prefix cache.",
    "your code freed {names}. Which counter of a request holds the second number, and which did you pass?",
)
NOT_ENDED = (
    "check_stop is called after each token that is appended: it looks at the newest token of the request.",
    "your code left {names} unfinished, and a sampled token ends it. Which token was the newest one when check_stop "
    "was called, and which max_model_len was it given?",
)
ANSWER = (
    "The answer has, for each request that got tokens, those that were kept: the one that ends it is kept, too.",
    "the outputs are right, and your answer about {names} has other tokens. When does your code note what it keeps?",
)
KEPT_FROM_BEFORE = (
    "The answer is about the requests of this step, and a new dictionary in each call.",
    "not in this step, but in your answer: {names}. Where does your code keep entries from one call to the next?",
)


def symptom_of_update(
    planned: Sequence[str],
    running_before: Sequence[str],
    expected: Mapping[str, object],
    yours: Mapping[str, object],
) -> Advice | None:
    """Return (rule, hint) if what is wrong with a failed update has a cause of its own."""
    wrong = [label for label in expected if expected[label] != yours[label]]
    strangers = [name for name in _names(yours["returned"]) if name not in planned]
    if strangers:
        return _about(KEPT_FROM_BEFORE, strangers)
    if wrong == ["also changed"]:
        return _about(ARGUMENTS, _names(yours["also changed"]))
    unfinished = [name for name in _names(expected["finished"]) if name not in _names(yours["finished"])]
    if unfinished and "returned" not in wrong and "outputs" not in wrong:
        return _about(NOT_ENDED, unfinished)
    if wrong == ["returned"]:
        other = [
            name for name, kept in _items(expected["returned"]) if dict(_items(yours["returned"])).get(name) != kept
        ]
        return _about(ANSWER, other) if other else None
    if wrong == ["freed, in order"]:
        return _wrongly_freed(_names(expected["freed, in order"]), _names(yours["freed, in order"]))
    return _wrongly_left(running_before, expected, yours) if wrong == ["RUNNING"] else None


def _about(advice: Advice, names: Sequence[str]) -> Advice:
    return advice[0], advice[1].format(names=" and ".join(names))


def _names(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, Mapping | Sequence) else []


def _items(values: object) -> list[tuple[str, object]]:
    return list(values.items()) if isinstance(values, Mapping) else []


def _wrongly_freed(to_free: Sequence[str], freed: Sequence[str]) -> Advice | None:
    held = [name for name in to_free if name not in freed]
    if held and [name for name in to_free if name in freed] == freed:
        return _about(NOT_FREED, held)
    if [re.sub(r" with .*", "", one) for one in freed] == to_free:
        return _about(FREED_WITH, [one for one in freed if " with " in one])
    return None


def _wrongly_left(
    running_before: Sequence[str], expected: Mapping[str, object], yours: Mapping[str, object]
) -> Advice | None:
    right, left = _names(expected["RUNNING"]), _names(yours["RUNNING"])
    if left == list(running_before):
        return NEW_LIST
    over = [name for name in left if name not in right]
    return _about(LEFT_OVER, over) if over and [name for name in left if name in right] == right else None
