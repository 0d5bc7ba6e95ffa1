"""Mistakes of a preemption that show in what happened: a better rule and hint than those of the test.

They are looked for only after a test has failed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mini_vllm.core.request import Request

Advice = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RoomBefore:
    """How things stood before a call of `make_room`."""

    running: Sequence[str]
    plan: Mapping[str, int]
    budget: int
    num_records: int


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
    "The victim leaves RUNNING, no other request does, and its id is the first one in the record.",
    "your code recorded {victims} as preempted, and {gone} left RUNNING. Which of your lines has the wrong one?",
)
NOT_RECORDED = (
    "Each victim is recorded in `scheduler_output.preempted`.",
    "{gone} left RUNNING, and your code recorded no victim. Which line is to make the entry?",
)
OTHER_VICTIM = (
    "make_room preempts the request that choose_victim returns for RUNNING and the policy of the object; that may be "
    "the request in need itself.",
    "by the rules {right} is preempted here, and your code preempted {wrong}. Among which requests does it choose, and "
    "by which policy?",
)
RETURNED = (
    "A victim returns the tokens that this step had planned for it, and 0 if it was not planned.",
    "this step had planned {planned} tokens for {victim}, and your record has {returned}. Where does that number come "
    "from?",
)
BUDGET_RISE = (
    "The tokens that were planned for the victims return to `scheduler_output.token_budget`.",
    "{planned} tokens were planned for the victims, and your budget went from {before} to {after}. Which line changes "
    "it?",
)
WAITING_ORDER = (
    "A victim goes back to WAITING with `prepend_request`, one victim after the other.",
    "WAITING holds the right requests in another order. By which method do the victims go back, and in which order?",
)
NEW_LIST = (
    "A victim leaves RUNNING, and RUNNING is the caller's list.",
    "your code recorded a victim, and the caller's list still holds every request. Does your code change that very "
    "list, or make a new one under the same name?",
)
VICTIM_KEEPS = (
    "Status, computed tokens and preemptions of a victim change; prompt, outputs, rank, hashes and all the rest stay.",
    "your code changed {names}. What is lost with the blocks: the tokens, or their K and V?",
)
VICTIM_STATUS = (
    "A victim is PREEMPTED, whatever it has computed or generated.",
    "it is {status} after your call. Which line sets the status?",
)
NEVER_FREED = (
    "A victim's blocks are freed: kv.free is called once, whatever the request has computed.",
    "your code did not call kv.free. Which other line would give the blocks back?",
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
    if changed := _names(yours["also changed"]):
        return VICTIM_KEEPS[0], VICTIM_KEEPS[1].format(names=" and ".join(changed))
    if wrong == ["status"]:
        return VICTIM_STATUS[0], VICTIM_STATUS[1].format(status=yours["status"])
    if "kv calls" in wrong and yours["kv calls"] == []:
        return NEVER_FREED
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
    before: RoomBefore,
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
    records = re.findall(r"\('(\w+)', '\w+', (-?\d+)\)", str(yours["preempted"]))[before.num_records :]
    victims = [victim for victim, _ in records]
    gone = [one for one in before.running if one not in _names(yours["RUNNING"])]
    if gone and not victims:
        return NOT_RECORDED[0], NOT_RECORDED[1].format(gone=" and ".join(gone))
    if len(victims) == len(gone) and sorted(victims) != sorted(gone):
        return OTHER_LEAVES[0], OTHER_LEAVES[1].format(victims=" and ".join(victims), gone=" and ".join(gone))
    if "RUNNING" in wrong and not gone and victims:
        return NEW_LIST
    right = re.findall(r"\('(\w+)', '\w+', -?\d+\)", str(expected.get("preempted", [])))[before.num_records :]
    for should, does in zip(right, victims, strict=False):
        if should != does:
            return OTHER_VICTIM[0], OTHER_VICTIM[1].format(right=should, wrong=does)
    if wrong == ["WAITING"] and sorted(_names(yours["WAITING"])) == sorted(_names(expected["WAITING"])):
        return WAITING_ORDER
    return _wrongly_returned(before, records, wrong, yours) if victims == right else None


def _wrongly_returned(
    before: RoomBefore, records: Sequence[tuple[str, str]], wrong: Sequence[str], yours: Mapping[str, object]
) -> Advice | None:
    """Return advice if a record has another number than the plan, or if the budget rose by another one."""
    for victim, returned in records:
        planned = before.plan.get(victim, 0)
        if int(returned) != planned:
            return RETURNED[0], RETURNED[1].format(planned=planned, victim=victim, returned=returned)
    planned, after = sum(before.plan.get(victim, 0) for victim, _ in records), yours["budget left"]
    if "budget left" in wrong and after != before.budget + planned:
        return BUDGET_RISE[0], BUDGET_RISE[1].format(planned=planned, before=before.budget, after=after)
    return None


def _brought_up_too_late(
    name: str, wrong: Sequence[str], yours: Mapping[str, object], expected: Mapping[str, object]
) -> list[str]:
    """Return what is still wrong about a request that was its own victim, if nothing else is."""
    is_self_victim = yours["make_room"] is False and expected.get("make_room") is False
    is_waiting = f"{name} PREEMPTED" in str(yours["requests"])
    is_left_out = name in _names(yours["RUNNING"]) or f"('{name}', '" not in str(yours["preempted"])
    own = {"RUNNING", "plan", "budget left", "preempted"}
    return list(wrong) if is_self_victim and is_waiting and is_left_out and set(wrong) <= own else []


def _names(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, Sequence) else []
