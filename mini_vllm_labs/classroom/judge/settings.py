"""What a judge's run depends on, in a file that loads no graded test."""

from dataclasses import dataclass
from typing import Any

from mini_vllm.assembly.lineup import PHASE_NAMES

MAX_MESSAGE_BYTES = 32 * 2**20  # between the command and a grading process, one way


@dataclass(frozen=True)
class JudgeSettings:
    """What the points depend on: a seed, the situations in a group, time limits per situation and submission.

    `jailed`: whether submissions are isolated from the machine.
    """

    seed: str
    situations: int = 5
    seconds: float = 10.0
    minutes: float = 10.0
    phases: tuple[int, ...] = tuple(range(1, len(PHASE_NAMES) + 1))
    jailed: bool = False

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "JudgeSettings":
        return cls(**values | {"phases": tuple(values["phases"])})
