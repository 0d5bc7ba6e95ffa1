"""Mistakes that show in what happened: a better rule and hint than those of the test that met them.

Each symptom is looked for only after a test has failed, and returned only if it was found.
"""

import re
from collections.abc import Mapping, Sequence

Advice = tuple[str, str]

ALLOCATE = "kv.allocate_slots("
MAKE_ROOM = "preemption.make_room("
ASK_CHUNKS = "chunks.num_new_tokens("
ADMITS = "chunks.admits("
LOOK_UP_HITS = "kv.get_computed_blocks("

LOOKAHEAD = (
    "`num_lookahead_tokens` is for speculative decoding, which this engine does not have: memory is asked for the "
    "granted tokens only.",
    "your code asked for lookahead slots of {names}. Which arguments of allocate_slots does the task name?",
)
CLAMP = (
    "This step uses your `clamp`, which returned a wrong number: task 1.1 comes first.",
    "in this step {call}. Do the tests of task 1.1 pass?",
)
OTHER_LISTS = (
    "make_room is given the very RUNNING and WAITING of your step: it moves its victims from the one to the other.",
    "in this step make_room was given another object as {names}. Which of its arguments comes at which place?",
)
ADVANCED = (
    "schedule_step plans. The frame counts the planned tokens as computed, after schedule_step has returned.",
    "your step has added the planned tokens to num_computed_tokens, of {names}. What happens when the frame does?",
)
VANISHED = (
    "Every request is in RUNNING or in WAITING when the step is over, and in one of them only.",
    "{names} was in one of them before the step. Where is it now, and which line took it out or put it in twice?",
)
NOT_ASKED = (
    "How many tokens a request gets is the answer of `chunks.num_new_tokens`.",
    "{names} is in your plan, and your code never asked `chunks` about it. Where does its number come from?",
)
NOTHING = (
    "0 tokens from `chunks` means: not in this step. No memory is asked for, and there is no entry in the plan.",
    "your code went on with {names} although it got 0 tokens. Which line looks at the number that `chunks` returned?",
)
EMPTY_LIST = (
    "allocate_slots returns the blocks it took. [] means that the last block had room; only None is a refusal.",
    "allocate_slots returned [] for {names}, and your code went on as if it had been refused. `if not blocks` and "
    "`if blocks is None` differ for one value. Which?",
)
NO_MEMORY = (
    "A request that was refused memory, and for which no room was made, has no entry in the plan.",
    "{names} was refused and is in your plan. Which blocks would its tokens be written to?",
)
NO_ROOM = (
    "A running request that is refused memory asks `preemption.make_room` before it is skipped.",
    "{names} was refused memory, and your code did not call make_room for it. Which line handles None?",
)
SKIPS = (
    "A victim leaves RUNNING while the step is planned; every request that still runs is looked at all the same.",
    "your loop never came to {names}. make_room takes the victim out of the very list `running`: what does a loop "
    "over that list do then?",
)
DOOR_OPEN = (
    "Once a running request was refused memory, no request is admitted in this step, however the refusal ended.",
    "a running request was refused, and then your code looked at {names} of WAITING. Where does it remember the "
    "refusal?",
)
ENDS_EARLY = (
    "A request that gets no memory, and for which no request is preempted, is skipped in this step. The others go on.",
    "{refused} was refused and is RUNNING still, and your loop never came to {names}. Does it leave the loop or "
    "go on with the next one?",
)
BY_RANK = (
    "The step goes by the order of the two lists. Priorities and arrival times were used when the queue was ordered.",
    "your code served {names}, which is the order of their {what}. Which order do `running` and the queue have?",
)
BUDGET = (
    "The budget falls by the tokens of the plan, and by nothing else.",
    "your plan has {planned} tokens, and the budget fell by {spent}. Which line takes from it, and for which tokens?",
)
LEAKED = (
    "Memory is the last thing that an admission asks for: a request that gets it is admitted.",
    "your code allocated memory for {names} and then did not admit it, so its blocks stay taken. What has to be known "
    "before memory is asked for?",
)
TOLD_APART = (
    "`chunks.admits` returns True for a request that may be admitted: then memory is asked for. False ends the "
    "admissions of this step.",
    "`admits` returned {answer} for {names}, and after that your code {did} memory for it. Which of the two answers "
    "ends your loop?",
)
ALSO_CHANGED = (
    "A step decides status and num_computed_tokens of a request; everything else about it stays as it was.",
    "your code changed {names}. Does a later step or the engine still need the old value?",
)


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
    return None


def _budget_differs(budget: int, plan: Mapping[str, int], outcome: Mapping[str, object]) -> Advice | None:
    spent, planned = budget - int(str(outcome["budget left"])), sum(plan.values())
    return None if spent == planned else (BUDGET[0], BUDGET[1].format(planned=planned, spent=spent))
