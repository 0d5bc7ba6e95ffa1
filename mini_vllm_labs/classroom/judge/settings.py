"""The settings of a judge run, in a module that does not load graded tests."""

from dataclasses import dataclass
from typing import Any

from mini_vllm.assembly.lineup import PHASE_NAMES

MAX_MESSAGE_BYTES = 32 * 2**20  # sent one way, from the command to a grading process


@dataclass(frozen=True)
class JudgeSettings:
    """The settings that determine points: a seed, situations per group, and time limits.

    `seconds` limits a situation, `minutes` a submission. `jailed` is true if submissions are isolated from the rest of
    the machine.
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
