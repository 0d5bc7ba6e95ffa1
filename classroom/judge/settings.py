"""What a run of the judge is made of: with the same settings, a submission gets the same points."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from classroom.judge.jail import Jail, compile_course, find_jail
from classroom.judge.judge import Judge


@dataclass(frozen=True)
class Settings:
    """The secret seed, the number of situations in a group, the time limits, and whether there is a jail."""

    seed: str
    situations: int
    seconds: float
    minutes: float
    phases: tuple[int, ...]
    jailed: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Settings":
        return cls(**values | {"phases": tuple(values["phases"])})

    def judge(self, on_progress: Callable[[str, int], None]) -> Judge:
        """Return a judge of these settings. Raises `JailError` if the jail is missing."""
        jail = find_jail() if self.jailed else Jail()
        compile_course()
        return Judge(self.seed, jail, self.situations, self.seconds, self.phases, on_progress, 60 * self.minutes)
