"""Where two runs of the same workload part first."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mini_vllm.core.step_record import StepRecord

# What is compared, in the order in which a step happens, and what it is called.
FIELDS = {
    "added": "who arrives",
    "scheduled": "who is scheduled",
    "preempted": "who is preempted",
    "evicted": "which old content is lost",
    "free_after_schedule": "how many blocks are free",
    "output": "what is sampled",
    "finished": "who is done",
    "running_after": "who is running",
    "waiting_after": "who is waiting",
}


@dataclass(frozen=True)
class Difference:
    """The first step in which two runs differ. `field` is empty if one of them ends there."""

    step: int
    field: str

    def describe(self) -> str:
        """Return what differs, in words."""
        return FIELDS[self.field] if self.field else "length: one of them is over"


def first_difference(first: Sequence[StepRecord], second: Sequence[StepRecord]) -> Difference | None:
    """Return where two traces part, or None if they are equal to the end."""
    for step, (one, other) in enumerate(zip(first, second, strict=False)):
        for field in FIELDS:
            if plain(one, field) != plain(other, field):
                return Difference(step, field)
    shorter = min(len(first), len(second))
    return Difference(shorter, "") if len(first) != len(second) else None


def plain(record: StepRecord, field: str) -> Any:
    """Return a part of a record as a file would have it, whether it comes from one or not."""
    return json.loads(json.dumps(record[field]))  # type: ignore[literal-required]
