"""The first difference between two runs of the same workload."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mini_vllm.core.step_record import StepRecord

# The compared fields in the order of a step, and their names for a reader.
FIELDS = {
    "added": "the arrivals",
    "scheduled": "the scheduled requests",
    "preempted": "the preempted requests",
    "evicted": "the evicted blocks",
    "free_after_schedule": "the number of free blocks",
    "output": "the sampled tokens",
    "finished": "the finished requests",
    "running_after": "the running queue",
    "waiting_after": "the waiting queue",
}


@dataclass(frozen=True)
class Difference:
    """The first step in which two runs differ. `field` is empty if one run ends there."""

    step: int
    field: str

    def describe(self) -> str:
        """Return what differs, as text."""
        return FIELDS[self.field] if self.field else "the length: one run has ended"


def first_difference(first: Sequence[StepRecord], second: Sequence[StepRecord]) -> Difference | None:
    """Return the first difference of two traces, or None if they are equal."""
    for step, (one, other) in enumerate(zip(first, second, strict=False)):
        for field in FIELDS:
            if plain(one, field) != plain(other, field):
                return Difference(step, field)
    shorter = min(len(first), len(second))
    return Difference(shorter, "") if len(first) != len(second) else None


def plain(record: StepRecord, field: str) -> Any:
    """Return a field of a record as JSON stores it, so that live and recorded steps compare equal."""
    return json.loads(json.dumps(record[field]))  # type: ignore[literal-required]
