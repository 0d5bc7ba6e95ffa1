"""Defines the knobs of a panel (numbers, choices and switches) and checks their values."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Knob:
    """A control on a panel; `value` is its initial value."""

    name: str
    label: str
    value: Any
    kind: ClassVar[str]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"kind": self.kind}

    def checked(self, value: Any) -> Any:
        """Return the value if it is valid. Raises a `ValueError` that lists the valid values."""
        raise NotImplementedError


@dataclass(frozen=True)
class Slider(Knob):
    """A number between `low` and `high`, shown with `unit`. If `at_zero` is non-empty, it is shown instead of 0."""

    low: float
    high: float
    step: float = 1
    unit: str = ""
    at_zero: str = ""
    kind = "slide"

    def checked(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not self.low <= value <= self.high:
            raise ValueError(f"{self.name} is {value!r}, but it must be a number from {self.low} to {self.high}")
        return value


@dataclass(frozen=True)
class Menu(Knob):
    """A choice among a few values, such as powers of two."""

    options: Sequence[Any]
    kind = "choice"

    def checked(self, value: Any) -> Any:
        if value not in self.options:
            raise ValueError(f"{self.name} is {value!r}, but it must be one of {', '.join(map(str, self.options))}")
        return value


@dataclass(frozen=True)
class Switch(Knob):
    """A knob that is on or off."""

    kind = "switch"

    def checked(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{self.name} is {value!r}, but it must be True or False")
        return value


def checked(knobs: Mapping[str, Knob], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values if all of them are valid. Raises a `ValueError` that names the knob and its range."""
    if unknown := values.keys() - knobs.keys():
        raise ValueError(f"unknown knob {', '.join(sorted(unknown))}; the knobs are {', '.join(knobs)}")
    return {name: knobs[name].checked(value) for name, value in values.items()}
