"""Mistakes of a preemption that show in what happened: a better rule and hint than those of the test.

They are looked for only after a test has failed.
"""

import re
from collections.abc import Mapping, Sequence

from mini_vllm.core.request import Request

Advice = tuple[str, str]

LOOKAHEAD = (
    "`num_lookahead_tokens` is for speculative decoding, which this engine does not have: room is made for the new "
    "tokens only.",
    "your code asked for lookahead slots. Which arguments of allocate_slots does the task name?",
)
ALSO_CHANGED = (
    "make_room changes victims, the two queues and the plan. Everything else about a request stays as it was.",
    "your code changed {names}. Does a later step or the engine still need the old value?",
)
RETURNS_EARLY = (
    "A request that is its own victim leaves RUNNING and the plan and is recorded, like any other; then make_room "
    "returns False.",
    "{name} waits and make_room returned False; what differs is {what}. Which of your lines for a victim does not run "
    "for {name}?",
)
OTHER_LEAVES = (
    "The victim leaves RUNNING, and no other request does.",
    "your code recorded {victims} as preempted, and {gone} left RUNNING. Which line takes a request "
    "out of RUNNING, and which request?",
)
NEW_LIST = (
    "A victim leaves RUNNING, and RUNNING is the caller's list.",
    "your code recorded a victim, and the caller's list still holds every request. Does your code change that very "
    "list, or make a new one under the same name?",
)
COUNTED_TWICE = (
    "A preemption is counted once.",
    "your code counts {more} preemptions for this one. `request.preempt()` counts it: which line does so, too?",
)
WRONG_NUMBER = (
    "kv.free is called once, with the number of the request's tokens that are computed.",
    "{computed} of its {known} tokens were computed, and your code called kv.free with {number}. Which counter has the "
    "{computed}, and until which line?",
)


def symptom_of_preempt(
    request: Request, before: Mapping[str, object], yours: Mapping[str, object], wanted: Mapping[str, object]
) -> Advice | None:
    """Return (rule, hint) if a failed preemption shows one of the two mistakes."""
    wrong = [label for label in wanted if yours[label] != wanted[label]]
    if wrong == ["preemptions"] and request.num_preemptions > int(str(wanted["preemptions"])):
        more = request.num_preemptions - int(str(before["num_preemptions"]))
        return COUNTED_TWICE[0], COUNTED_TWICE[1].format(more=more)
    freed = re.fullmatch(r"\['kv\.free\(\w+, (-?\d+)\)'\]", str(yours.get("kv calls")))
    if wrong == ["kv calls"] and freed:
        computed, known = before["num_computed_tokens"], request.num_tokens
        return WRONG_NUMBER[0], WRONG_NUMBER[1].format(computed=computed, known=known, number=freed[1])
    return None


def symptom_of_room(
    name: str,
    running_before: Sequence[str],
    calls: Sequence[str],
    yours: Mapping[str, object],
    expected: Mapping[str, object],
) -> Advice | None:
    """Return (rule, hint) if a failed `make_room` for the request `name` shows one of the mistakes."""
    if any("num_lookahead_tokens" in call for call in calls):
        return LOOKAHEAD
    if changed := _names(yours["also changed"]):
        return ALSO_CHANGED[0], ALSO_CHANGED[1].format(names=" and ".join(changed))
    wrong = [label for label in expected if yours.get(label, expected[label]) != expected[label]]
    if late := _brought_up_too_late(name, wrong, yours, expected):
        return RETURNS_EARLY[0], RETURNS_EARLY[1].format(name=name, what=" and ".join(late))
    victims = re.findall(r"\('(\w+)', '\w+', -?\d+\)", str(yours["preempted"]))
    gone = [one for one in running_before if one not in _names(yours["RUNNING"])]
    if len(victims) == len(gone) and sorted(victims) != sorted(gone):
        return OTHER_LEAVES[0], OTHER_LEAVES[1].format(victims=" and ".join(victims), gone=" and ".join(gone))
    is_unchanged = _names(yours["RUNNING"]) == list(running_before)
    return NEW_LIST if "RUNNING" in wrong and is_unchanged and victims else None


def _brought_up_too_late(
    name: str, wrong: Sequence[str], yours: Mapping[str, object], expected: Mapping[str, object]
) -> list[str]:
    """Return what is still wrong about a request that was its own victim, if nothing else is."""
    is_self_victim = yours["make_room"] is False and expected.get("make_room") is False
    is_waiting = f"{name} PREEMPTED" in str(yours["requests"])
    is_left_out = name in _names(yours["RUNNING"]) or f"('{name}', '{name}'," not in str(yours["preempted"])
    own = {"RUNNING", "plan", "budget left", "preempted"}
    return list(wrong) if is_self_victim and is_waiting and is_left_out and set(wrong) <= own else []


def _names(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, Sequence) else []
