"""Mistakes that show in what happened: a better rule and hint than those of the test that met them.

Each symptom is looked for only after a test has failed, and returned only if it was found.
"""

import re
from collections.abc import Mapping, Sequence

from course.labtest.phase1.advice import (
    ADVANCED,
    ALSO_CHANGED,
    AT_THE_END,
    BUDGET,
    BY_RANK,
    DOOR_OPEN,
    EMPTY_LIST,
    ENDS_EARLY,
    LEAKED,
    LOOKAHEAD,
    NO_MEMORY,
    NO_ROOM,
    NOT_ASKED,
    NOTHING,
    OUT_OF_ORDER,
    SKIPS,
    STATUS,
    TOLD_APART,
    VANISHED,
    Advice,
)

ALLOCATE = "kv.allocate_slots("
MAKE_ROOM = "preemption.make_room("
ASK_CHUNKS = "chunks.num_new_tokens("
ADMITS = "chunks.admits("
LOOK_UP_HITS = "kv.get_computed_blocks("


def symptom_of_step(
    calls: Sequence[str],
    running_before: Sequence[str],
    waiting_before: Sequence[str],
    ranks: Mapping[str, tuple[int, float]],
    budget: int,
    outcome: Mapping[str, object],
) -> Advice | None:
    """Return (rule, hint) if a failed step shows one of the mistakes."""
    plan = {name: int(n) for name, n in re.findall(r"(\w+):(\d+)", str(outcome["plan"]))}
    after = re.findall(r"(\w+) \d+/", f"{outcome['RUNNING']} {outcome['WAITING']}")
    asked = [_name(call) for call in calls if call.startswith(ASK_CHUNKS)]
    refused = [_name(call) for call in calls if call.startswith(ALLOCATE) and call.endswith("None")]
    rescued = [_name(call) for call in calls if call.startswith(MAKE_ROOM) and "-> True" in call]
    tried = [_name(call) for call in calls if call.startswith(MAKE_ROOM)]
    changed: Sequence[object] = outcome["also changed"]  # type: ignore[assignment]
    found: list[tuple[Advice, list[str]]] = [
        (LOOKAHEAD, [_name(call) for call in calls if "num_lookahead_tokens=" in call]),
        (VANISHED, [name for name in (*running_before, *waiting_before) if after.count(name) != 1]),
        (ADVANCED, _advanced(calls, plan, outcome)),
        (NOT_ASKED, [name for name in plan if name not in asked]),
        (NOTHING, [_name(call) for call in calls if call.startswith(ALLOCATE) and re.match(r".*?, 0[,)]", call)]),
        (NOTHING, [name for name, amount in plan.items() if amount == 0]),
        (LEAKED, _leaked(calls)),
        (EMPTY_LIST, _taken_for_refused(calls, plan)),
        (STATUS, _wrong_statuses(outcome)),
        (LEAKED, re.findall(r"memory of (\w+), which waits", "\n".join(map(str, changed)))),
        (DOOR_OPEN, _looked_at_after_refusal(calls)[:1]),
        (NO_ROOM, [name for name in refused if name in running_before and name not in (*tried, *plan)]),
        (NO_MEMORY, [name for name in refused if name in plan and name not in rescued]),
        (ALSO_CHANGED, list(map(str, changed))),
    ]
    for (rule, hint), names in found:
        if names:
            return rule, hint.format(names=" and ".join(dict.fromkeys(names)))
    return (
        _admits_inverted(calls)
        or _loop_ends_early(calls, running_before, asked, outcome)
        or _served_by_rank(asked, running_before, waiting_before, ranks)
        or _budget_differs(budget, plan, outcome)
        or _in_front(running_before, plan, outcome)
    )


def _name(call: str) -> str:
    """Return the request of a call: `A` of `kv.allocate_slots(A, 1) -> None`."""
    return re.split(r"[,)]", call.partition("(")[2], maxsplit=1)[0]


def _advanced(calls: Sequence[str], plan: Mapping[str, int], outcome: Mapping[str, object]) -> list[str]:
    """Return the planned requests if each has computed as many tokens more as it was granted."""
    computed = dict(re.findall(r"(\w+) (\d+)/", str(outcome["RUNNING"])))
    asked = dict(re.findall(r"chunks\.num_new_tokens\((\w+), (\d+)", "\n".join(calls)))
    if not plan or not plan.keys() <= computed.keys() & asked.keys():
        return []
    grown = [name for name, n in plan.items() if int(computed[name]) == int(asked[name]) + n and n]
    return grown if len(grown) == len(plan) else []


def _taken_for_refused(calls: Sequence[str], plan: Mapping[str, int]) -> list[str]:
    """Return the requests that allocate_slots answered [] and that are neither planned nor preempted later."""
    granted = [_name(call) for call in calls if call.startswith(ALLOCATE) and call.endswith("-> []")]
    preempted = " ".join(re.findall(r"preempted: ([^)]*)\)", "\n".join(calls))).split()
    return [name for name in granted if name not in plan and name not in preempted]


def _leaked(calls: Sequence[str]) -> list[str]:
    """Return the requests that got memory and were turned away by `admits` afterwards."""
    turned_away = {_name(call): index for index, call in enumerate(calls) if call == f"{ADMITS}{_name(call)}) -> False"}
    granted = [(index, _name(call)) for index, call in enumerate(calls) if _is_grant(call)]
    return [name for index, name in granted if index < turned_away.get(name, -1)]


def _is_grant(call: str) -> bool:
    return call.startswith(ALLOCATE) and not call.endswith("None")


def _admits_inverted(calls: Sequence[str]) -> Advice | None:
    """Return advice if memory was asked for after False, or was not asked for after True."""
    for index, call in enumerate(calls):
        if not call.startswith(ADMITS):
            continue
        name, answer = _name(call), call.rpartition(" ")[2]
        asked = any(later.startswith(ALLOCATE) and _name(later) == name for later in calls)
        asked_later = any(later.startswith(ALLOCATE) and _name(later) == name for later in calls[index:])
        if (answer == "True" and not asked) or (answer == "False" and asked_later):
            did = "asked for" if asked else "did not ask for"
            return TOLD_APART[0], TOLD_APART[1].format(answer=answer, names=name, did=did)
    return None


def _looked_at_after_refusal(calls: Sequence[str]) -> list[str]:
    """Return the waiting requests that were looked at after a running one had been refused."""
    first = next((index for index, call in enumerate(calls) if call.startswith(MAKE_ROOM)), len(calls))
    return [_name(call) for call in calls[first:] if call.startswith(LOOK_UP_HITS)]


def _loop_ends_early(
    calls: Sequence[str], running_before: Sequence[str], asked: Sequence[str], outcome: Mapping[str, object]
) -> Advice | None:
    """Return advice if budget is left and a request that still runs was never looked at."""
    refusals = [call for call in calls if call.startswith(MAKE_ROOM)]
    ended_itself = any(victim == cause for victim, cause, _ in outcome["preempted"])  # type: ignore[attr-defined]
    still_running = re.findall(r"(\w+) \d+/", str(outcome["RUNNING"]))
    skipped = [name for name in running_before if name in still_running and name not in asked]
    if not refusals or not skipped or ended_itself or not outcome["budget left"]:
        return None
    names = " and ".join(skipped)
    if any("preempted: none" not in call for call in refusals):
        return SKIPS[0], SKIPS[1].format(names=names)
    if refusals[-1] == calls[-1]:
        return ENDS_EARLY[0], ENDS_EARLY[1].format(refused=_name(calls[-1]), names=names)
    return None


def _served_by_rank(
    asked: Sequence[str],
    running_before: Sequence[str],
    waiting_before: Sequence[str],
    ranks: Mapping[str, tuple[int, float]],
) -> Advice | None:
    """Return advice if requests were looked at in the order of their ranks, which is not that of their list."""
    for before in (running_before, waiting_before):
        served = [name for name in dict.fromkeys(asked) if name in before]
        if served == list(before)[: len(served)]:
            continue
        orders = {
            "priorities": sorted(before, key=lambda name: ranks[name][0]),
            "arrival times": sorted(before, key=lambda name: ranks[name][1]),
        }
        for what, order in orders.items():
            if served in (order[: len(served)], order[::-1][: len(served)]):
                return BY_RANK[0], BY_RANK[1].format(names=", then ".join(served), what=what)
        places = [list(before).index(name) for name in served]
        if places != sorted(places):
            return OUT_OF_ORDER[0], OUT_OF_ORDER[1].format(names=", then ".join(served))
    return None


def _in_list(outcome: Mapping[str, object], which: str) -> list[str]:
    return re.findall(r"(\w+) \d+/", str(outcome[which]))


def _wrong_statuses(outcome: Mapping[str, object]) -> list[str]:
    """Return the requests whose status does not fit the list that they are in, as `B waits and is RUNNING`."""
    statuses: Mapping[str, str] = outcome["statuses"]  # type: ignore[assignment]
    runs = [f"{name} runs and is {statuses[name]}" for name in _in_list(outcome, "RUNNING")]
    waits = [f"{name} waits and is RUNNING" for name in _in_list(outcome, "WAITING") if statuses[name] == "RUNNING"]
    return [text for text in runs if not text.endswith(" RUNNING")] + waits


def _in_front(running_before: Sequence[str], plan: Mapping[str, int], outcome: Mapping[str, object]) -> Advice | None:
    """Return advice if requests that were admitted do not stand behind those that ran already, in their order."""
    after = _in_list(outcome, "RUNNING")
    old = [name for name in running_before if name in after]
    admitted = [name for name in plan if name not in old and name in after]
    keeps_old = [name for name in after if name in old] == old
    if not admitted or not keeps_old or after == old + admitted or sorted(after) != sorted(old + admitted):
        return None
    return AT_THE_END[0], AT_THE_END[1].format(names=", ".join(after))


def _budget_differs(budget: int, plan: Mapping[str, int], outcome: Mapping[str, object]) -> Advice | None:
    spent, planned = budget - int(str(outcome["budget left"])), sum(plan.values())
    return None if spent == planned else (BUDGET[0], BUDGET[1].format(planned=planned, spent=spent))
