"""Compares an engine's answers with a recording, and reports the first difference."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mini_vllm_labs.conformance.process import BrokenEngineError
from mini_vllm_labs.conformance.scenarios import Message

ENTRY_FIELDS = {
    "computed": ("kind", "computed", "hit", "drafts", "encode"),
    "blocks": ("new_blocks", "blocks", "sliding_blocks"),
}
STEP_FIELDS = {
    "causes": ("preempted",),
    "sent": ("finished_sent",),
    "output": ("output",),
    "ends": ("finished",),
    "queues": ("running_after", "waiting_after"),
    "blocks": ("evicted", "free_after_schedule", "free_after_update"),
    "gates": ("loading", "held_after", "encodings_freed", "encoder_after"),
    "newer": ("deferred_after", "reset_done", "skip_drafts", "drafts_wanted"),
}
SOME_STEPS = (*STEP_FIELDS["gates"], *STEP_FIELDS["newer"])  # recorded only if the scenario uses them
GROUPS = ("order", "computed", "causes", "output", "ends", "queues", "sent", "blocks", "pool", "gates", "newer")
WORDS = {
    "who": "who was scheduled",
    "n": "how many tokens a request got",
    "victims": "whom the step preempted",
    "order": "the order of the scheduled requests",
    "hit": "how many tokens were found in the prefix cache",
    "computed": "how many tokens were computed before the step",
    "preempted": "for whom a request was preempted",
    "evicted": "which cached blocks were given out again",
    "finished": "which request ended, and why",
    "output": "which tokens a request kept",
    "waiting_after": "the order of the waiting queue",
    "new_blocks": "which blocks a request got",
    "admitted": "who was admitted when",
    "tokens": "when a request got its tokens",
    "hits": "how many tokens were found in the prefix cache",
}


@dataclass(frozen=True)
class FieldDifference:
    """The first difference in one group of fields."""

    step: int
    field: str
    expected: Any
    got: Any

    @property
    def words(self) -> str:
        """The field in words, if words are clearer than the field's name."""
        name = self.field.rpartition(".")[2].partition("[")[0]
        return WORDS.get(name, f"the field {self.field!r}")


class Comparison:
    """Collects the first difference of each group. The group `base` contains the decisions."""

    def __init__(self, offers: list[str]) -> None:
        self.groups = [group for group in GROUPS if group in offers]
        self.first: dict[str, FieldDifference] = {}

    def decide(self, number: int, recorded: dict[str, Any], answer: Message) -> bool:
        """Compare the decisions in a step; return whether they are the same.

        Raises `BrokenEngineError` if `scheduled` or `preempted` has a type that the protocol does not allow.
        """
        tokens, victims = _tokens(answer), _victims(answer)
        expected = {one["id"]: one["n"] for one in recorded["scheduled"]}
        expected_victims = [victim for victim, *_ in recorded["preempted"]]
        field = "victims" if victims != expected_victims else "who" if tokens.keys() != expected.keys() else "n"
        if victims == expected_victims and tokens == expected:
            return True
        both = (_decision(expected, expected_victims), _decision(tokens, victims))
        self.first["base"] = FieldDifference(number, field, *both)
        return False

    def compare_rest(self, number: int, recorded: dict[str, Any], answer: Message) -> None:
        """Compare the fields in the groups that the engine offers. `answer` contains both of the step's answers."""
        for group in self.groups:
            if group in self.first:
                continue
            for field, expected, got in _fields(group, recorded, answer):
                if expected != got:
                    self.first[group] = FieldDifference(number, field, expected, got)
                    break


def _decision(tokens: dict[str, int], victims: list[str]) -> str:
    scheduled = ", ".join(f"{request_id} {n}" for request_id, n in tokens.items()) or "nothing"
    return scheduled + (f"; preempts {', '.join(victims)}" if victims else "")


def _fields(group: str, recorded: dict[str, Any], answer: Message) -> Iterator[tuple[str, Any, Any]]:
    if group == "order":
        yield "order", [one["id"] for one in recorded["scheduled"]], [one["id"] for one in answer["scheduled"]]
    given = {one["id"]: one for one in answer["scheduled"]}
    for one in recorded["scheduled"] if group in ENTRY_FIELDS else ():
        for name in ENTRY_FIELDS[group]:
            if name in one:
                yield f"scheduled[{one['id']}].{name}", one[name], given[one["id"]].get(name)
    for name in STEP_FIELDS.get(group, ()):
        if name in recorded or name not in SOME_STEPS:
            yield name, recorded[name], answer.get(name)
    for name, expected in recorded.get("detail", {}).items() if group == "pool" else ():
        yield f"detail.{name}", expected, answer["detail"].get(name)


def _tokens(answer: Message) -> dict[str, int]:
    scheduled = answer.get("scheduled")
    if not isinstance(scheduled, list):
        raise BrokenEngineError(f"'scheduled' must be a list, got {short(scheduled)}")
    tokens: dict[str, int] = {}
    for one in scheduled:
        request_id, n = (one.get("id"), one.get("n")) if isinstance(one, dict) else (None, None)
        if not isinstance(request_id, str) or type(n) is not int:
            raise BrokenEngineError(
                f"each entry of 'scheduled' needs a string 'id' and a whole number 'n', got {short(one)}"
            )
        if request_id in tokens:
            raise BrokenEngineError(f"'scheduled' contains {request_id!r} twice")
        tokens[request_id] = n
    return tokens


def _victims(answer: Message) -> list[str]:
    preempted = answer.get("preempted")
    if not isinstance(preempted, list):
        raise BrokenEngineError(f"'preempted' must be a list, got {short(preempted)}")
    victims = [one[0] if isinstance(one, list) and one else one for one in preempted]
    if not all(isinstance(one, str) for one in victims):
        raise BrokenEngineError(f"'preempted' must contain ids, or lists [victim, cause, n], got {short(preempted)}")
    return victims


def short(value: Any, length: int = 300) -> str:
    """Return a value as JSON of limited length, and a string unchanged."""
    text = value if isinstance(value, str) else "nothing" if value is None else json.dumps(value)
    return text if len(text) <= length else f"{text[:length]} ... ({len(text)} characters)"
