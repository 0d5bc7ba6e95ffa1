"""Runs one comparison of a benchmark: sides take turns on the same work, and every round is recorded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from mini_vllm_labs.pictures.terminal.charts import duration
from mini_vllm_labs.pictures.terminal.progress import ProgressReport, unreported

UNITS: dict[str, Callable[[float], str]] = {
    "s": duration,
    "us": lambda value: f"{value:.2f} us",
    "ms": lambda value: f"{value:.0f} ms",
    "share": lambda value: f"{value:.1%}",
    "times": lambda value: f"{value:.2f}",
    "MiB": lambda value: f"{value:,.0f} MiB",
    "tokens/s": lambda value: f"{value:,.0f} tokens/s",
    "requests/s": lambda value: f"{value:.2f} requests/s",
    "": lambda value: f"{value:,.1f}" if value % 1 else f"{value:,.0f}",
}


class PeerError(RuntimeError):
    """A peer library's process failed to start or exited early. The message contains its last line of output."""


class Quantity(NamedTuple):
    """A number and its unit, one of `UNITS`."""

    value: float
    unit: str = ""

    def __str__(self) -> str:
        return UNITS[self.unit](self.value)


Figures = Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one side: the compared value, other figures, and each request's answer if it has one."""

    value: float
    figures: Figures = field(default_factory=dict)
    answers: Sequence[object] | None = None


Rounds = Mapping[str, Sequence[Measured]]


def in_turns(
    runs: Mapping[str, Callable[[int], Measured]],
    num_rounds: int,
    *,
    num_warm_ups: int = 0,
    report: ProgressReport = unreported,
    title: str = "",
    drop: Callable[[str, RuntimeError], None] | None = None,
) -> dict[str, list[Measured]]:
    """Run the sides in turn, so that a slow moment affects all of them; warm-ups are not counted.

    Each run receives the number of its round, which is negative in a warm-up. If a side raises `RuntimeError`, `drop`
    is called and the side is left out. The error propagates if `drop` is None or raises it.
    """
    rounds: dict[str, list[Measured]] = {name: [] for name in runs}
    for number in range(-num_warm_ups, num_rounds):
        for name in list(rounds):
            which = f"round {number + 1} of {num_rounds}" if number >= 0 else "warm-up"
            report(f"{title}, {name}: {which}")
            try:
                measured = runs[name](number)
            except RuntimeError as error:
                if drop is None:
                    raise
                drop(name, error)
                del rounds[name]
                continue
            if number >= 0:
                rounds[name].append(measured)
    return rounds


@dataclass(slots=True)
class Side:
    """A side's value in each round, and the medians of its other figures.

    `equal` is (number of answers identical to the base's, number of answers compared).
    """

    values: list[float]
    figures: dict[str, Quantity] = field(default_factory=dict)
    equal: tuple[int, int] = (0, 0)

    @property
    def median(self) -> float:
        return median(self.values)


@dataclass(slots=True)
class Case:
    """The sides of one comparison. Each ratio divides a side's value by that of `base` in the same round, or the other
    way round.

    `unit` is the unit of the values. Without a base the sides have no ratios.
    """

    title: str
    unit: str
    base: str
    sides: dict[str, Side]
    notes: list[str] = field(default_factory=list)
    base_over_side: bool = False

    @classmethod
    def of(cls, title: str, unit: str, base: str, rounds: Rounds, **more: Any) -> "Case":
        """Build a case from these rounds; each answer is compared with the base's in the same round."""
        sides = {}
        for name, found in rounds.items():
            figures = {
                key: Quantity(median(one.figures[key].value for one in found), quantity.unit)
                for key, quantity in found[0].figures.items()
                if all(key in one.figures for one in found)
            }
            compared = zip(found, rounds.get(base, ()), strict=False)
            pairs = [pair for mine, theirs in compared for pair in pairs_of_answers(mine, theirs)]
            equal = sum(one == other for one, other in pairs)
            sides[name] = Side([one.value for one in found], figures, (equal, len(pairs)))
        return cls(title, unit, base, sides, **more)

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Case":
        """Rebuild a case from the JSON form of its `asdict` output."""
        sides = {
            name: Side(
                list(one["values"]),
                {key: Quantity(*pair) for key, pair in one["figures"].items()},
                (one["equal"][0], one["equal"][1]),
            )
            for name, one in record["sides"].items()
        }
        return cls(**{**record, "sides": sides})

    @property
    def same_answers(self) -> bool:
        return all(equal == compared for equal, compared in (side.equal for side in self.sides.values()))

    def ratios(self, name: str, base: str = "") -> list[float]:
        """Return the ratio between the side and the base in each round."""
        pairs = zip(self.sides[name].values, self.sides[base or self.base].values, strict=False)
        return [theirs / mine if self.base_over_side else mine / theirs for mine, theirs in pairs]

    def ratio(self, name: str, base: str = "") -> float:
        """Return the median of the ratios of all rounds."""
        return median(self.ratios(name, base))

    @property
    def heading(self) -> str:
        """Return the title, followed by the unit if `spread` omits it."""
        is_named = str(Quantity(0.0, self.unit)).endswith(f" {self.unit}")
        return f"{self.title}, in {self.unit}" if is_named else self.title

    def spread(self, name: str) -> str:
        """Return a side's median, followed by its lowest and highest values if they differ."""
        values = self.sides[name].values
        middle, low, high = (
            str(Quantity(value, self.unit)).removesuffix(f" {self.unit}")
            for value in (median(values), min(values), max(values))
        )
        return middle + (f" ({low} to {high})" if low != high else "")


def pairs_of_answers(mine: Measured, theirs: Measured) -> Iterable[tuple[object, object]]:
    """Pair two sides' answers to each request; a slow side may have served only the first few."""
    if mine.answers is None or theirs.answers is None:
        return []
    return zip(mine.answers, theirs.answers, strict=False)
