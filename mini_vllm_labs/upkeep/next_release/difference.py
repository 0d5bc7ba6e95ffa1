"""Finds the first step in which a different release's trace differs from a recording, and describes it for grouping."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mini_vllm_labs.runs.parity.known_fields import COMPARED, SOME_FIELDS

Step = Mapping[str, Any]
# Fields that describe blocks, or the state after a step. All other fields are decisions and their consequences.
STATE = set(
    "evicted free_after_schedule free_after_update detail loading waiting_after held_after deferred_after "
    "encoder_after encodings_freed".split()
)
OF_BLOCKS = ("blocks", "new_blocks", "sliding_blocks")
OF_SHARES = {"kind": "kind", "hit": "hit tokens", "computed": "computed tokens", "n": "tokens", "drafts": "drafts"}
# A cause is named before its effects: which requests are preempted determines what is scheduled.
CAUSES = ("preempted", "scheduled")
ORDER = (*CAUSES, *(name for name in (*COMPARED, *SOME_FIELDS) if name not in CAUSES))
RENAMED = {"WAITING_FOR_FSM": "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR"}  # renamed in 0.14 or later


@dataclass(frozen=True)
class Difference:
    """The first step that differs. `what` contains no numbers or names, so that identical changes have identical
    texts."""

    step: int
    what: str
    recorded: Any
    found: Any
    is_decision: bool = True


def first_difference(recorded: Mapping[str, Any], found: Mapping[str, Any]) -> Difference | None:
    """Return the first difference in the decisions of two traces, or else in their blocks and state.

    Fields that are missing from one of the two are not compared.
    """
    return _difference(recorded, found, decisions=True) or _difference(recorded, found, decisions=False)


def _difference(recorded: Step, found: Step, *, decisions: bool) -> Difference | None:
    names = [name for name in ORDER if name not in STATE] if decisions else [*ORDER, "detail"]
    for number, (before, after) in enumerate(zip(recorded["steps"], found["steps"], strict=False)):
        for name in (one for one in names if one in before and one in after):
            old, new = (_normal(name, step[name], decisions=decisions) for step in (before, after))
            if old != new:
                return Difference(number, *_described(name, old, new), decisions)
    counts = len(recorded["steps"]), len(found["steps"])
    if counts[0] != counts[1]:
        return Difference(min(counts), "the number of steps", *counts)
    if recorded["requests"] != found["requests"]:
        return Difference(counts[0], "how requests ended", recorded["requests"], found["requests"])
    return None


def _normal(name: str, value: Any, *, decisions: bool) -> Any:
    if name == "scheduled" and decisions:
        return [{key: one for key, one in share.items() if key not in OF_BLOCKS} for share in value]
    if name == "held_after":
        return [[request_id, RENAMED.get(state, state), computed] for request_id, state, computed in value]
    if name == "transfers":
        return {**value, "invalid": len(value["invalid"]) if decisions else sorted(value["invalid"])}
    if name == "encoder_after":
        return {**value, "cached": {content: sorted(users) for content, users in value["cached"].items()}}
    return value


def _described(name: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """Return a description of the difference, its recorded value, and the value found."""
    if name == "scheduled":
        return _described_shares(old, new)
    if name == "detail":
        key = next(key for key in old if old[key] != new.get(key))
        return f"{name}.{key}", old[key], new.get(key)
    if name == "preempted":
        return _compared(len(old), len(new), "victims"), old, new
    return name, old, new


def _described_shares(old: Sequence[Step], new: Sequence[Step]) -> tuple[str, Any, Any]:
    """Describe the first request in the step that is treated differently."""
    before, after = ({share["id"]: share for share in shares} for shares in (old, new))
    for share in old:
        if share["id"] not in after:
            return f"a {share['kind']} request is not scheduled", share, None
    for share in new:
        if share["id"] not in before:
            return f"a {share['kind']} request is scheduled, too", None, share
    for name, share in before.items():
        for key in (*OF_SHARES, "encode", *OF_BLOCKS):
            values = share.get(key), after[name].get(key)
            if values[0] != values[1]:
                are_numbers = all(isinstance(value, int) for value in values)
                what = _compared(*values, OF_SHARES[key]) if are_numbers else f"other {OF_SHARES.get(key, key)}"
                return f"a {share['kind']} request: {what}", share, after[name]
    return "the order of the requests", list(before), list(after)


def _compared(old: Any, new: Any, what: str) -> str:
    return f"{'more' if new > old else 'fewer' if new < old else 'other'} {what}"
