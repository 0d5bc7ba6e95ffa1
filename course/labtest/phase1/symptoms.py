"""Mistakes that show in what happened: a better rule and hint than the one of the test that met them.

Each symptom is looked for only after a test has failed.
"""

import re
from collections.abc import Sequence

REFUSED = "preemption.make_room("
LOOKED_AT_A_WAITER = "kv.get_computed_blocks("
SKIPS = (
    "A victim leaves RUNNING while the step is planned; everybody who still runs is looked at all the same.",
    "your loop never came to {names}. make_room takes the victim out of the very list `running`: what does a loop "
    "over that list do then?",
)
DOOR_OPEN = (
    "Once a running request was refused memory, nobody is admitted in this step, however the refusal ended.",
    "a running request was refused, and then your code looked at {names} of WAITING. Where does it remember the "
    "refusal?",
)
ADVANCED = (
    "schedule_step plans. The frame counts the planned tokens as computed, after schedule_step has returned.",
    "your step has added the planned tokens to num_computed_tokens, of {names}. What happens when the frame does?",
)
ENDS_EARLY = (
    "A request that gets no memory, and for which nobody is evicted, sits this step out. The others go on.",
    "{refused} was refused and is RUNNING still, and your loop never came to {names}. Does it leave the loop or "
    "go on with the next one?",
)
NEW_LIST = (
    "RUNNING is the caller's list: what leaves it must leave that very list.",
    "the caller's list still holds everybody. Does your code change it, or make a new list under the same name?",
)

LEFT_OVER = (
    "All finished requests leave RUNNING.",
    "{names} is finished and still there. What does a loop over a list do when entries are taken out on the way?",
)
NOT_FREED = (
    "A request that is over gives its blocks back at once, in whichever way it ended.",
    "{names} is over, and its blocks are still held. Which call gives them back?",
)


def symptom_of_step(calls: Sequence[str], running_before: Sequence[str], outcome: dict[str, object]) -> tuple[str, str]:
    """Return (rule, hint) if the calls of a failed step show one of the mistakes, else empty texts."""
    advanced = _advanced(calls, outcome)
    if advanced:
        return ADVANCED[0], ADVANCED[1].format(names=" and ".join(advanced))
    refusals = [index for index, call in enumerate(calls) if call.startswith(REFUSED)]
    if not refusals:
        return "", ""
    late = [call for call in calls[refusals[0] :] if call.startswith(LOOKED_AT_A_WAITER)]
    if late:
        return DOOR_OPEN[0], DOOR_OPEN[1].format(names=late[0].removeprefix(LOOKED_AT_A_WAITER).rstrip(")"))
    evicted = any("evicted: nobody" not in calls[index] for index in refusals)
    ended_itself = any(victim == cause for victim, cause, _ in outcome["preempted"])  # type: ignore[attr-defined]
    still_running = str(outcome["RUNNING"]).strip("[]").replace(",", "").split()[::2]
    asked = {call.partition("(")[2].partition(",")[0] for call in calls if call.startswith("chunks.num_new_tokens")}
    skipped = [name for name in running_before if name in still_running and name not in asked]
    if evicted and skipped and not ended_itself and outcome["budget left"]:
        return SKIPS[0], SKIPS[1].format(names=" and ".join(skipped))
    if refusals[-1] == len(calls) - 1 and not evicted and skipped and outcome["budget left"]:
        refused = calls[-1].removeprefix(REFUSED).partition(",")[0]
        return ENDS_EARLY[0], ENDS_EARLY[1].format(refused=refused, names=" and ".join(skipped))
    return "", ""


def _advanced(calls: Sequence[str], outcome: dict[str, object]) -> list[str]:
    """Return the planned requests if each has computed as many tokens more as it was granted."""
    planned = dict(entry.split(":") for entry in str(outcome["plan"]).split() if ":" in entry)
    computed = dict(re.findall(r"(\w+) (\d+)/", str(outcome["RUNNING"])))
    asked = dict(re.findall(r"chunks\.num_new_tokens\((\w+), (\d+)", "\n".join(calls)))
    if not planned or not planned.keys() <= computed.keys() & asked.keys():
        return []
    grown = [name for name, n in planned.items() if int(computed[name]) == int(asked[name]) + int(n)]
    return grown if len(grown) == len(planned) else []


def symptom_of_update(
    running_before: Sequence[str], expected: dict[str, object], yours: dict[str, object]
) -> tuple[str, str]:
    """Return (rule, hint) if all of a failed update is right but who is left in RUNNING or freed, else empty texts."""
    wrong = [label for label in expected if expected[label] != yours[label]]
    if wrong == ["freed, in order"]:
        to_free, freed = list(expected[wrong[0]]), list(yours[wrong[0]])  # type: ignore[call-overload]
        held = [name for name in to_free if name not in freed]
        if [name for name in to_free if name in freed] == freed:
            return NOT_FREED[0], NOT_FREED[1].format(names=" and ".join(held))
    if wrong != ["RUNNING"]:
        return "", ""
    wanted, left = list(map(str, expected["RUNNING"])), list(map(str, yours["RUNNING"]))  # type: ignore[call-overload]
    if left == list(running_before):
        return NEW_LIST
    over = [name for name in left if name not in wanted]
    if over and [name for name in left if name in wanted] == wanted:
        return LEFT_OVER[0], LEFT_OVER[1].format(names=" and ".join(over))
    return "", ""
