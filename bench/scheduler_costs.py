"""The cost of scheduling: microseconds of CPU time, and tables of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Cost:
    """Microseconds of CPU time per request or look-up, over several rounds."""

    best: float
    median: float
    worst: float

    @classmethod
    def of(cls, seconds: Sequence[float], count: int) -> "Cost":
        """Divide the rounds' seconds by what each of them handled."""
        each = [1e6 * value / count for value in seconds]
        return cls(min(each), median(each), max(each))

    def __str__(self) -> str:
        return f"{self.median:.2f} us ({self.best:.2f} to {self.worst:.2f})"


Costs = dict[str, Cost]  # by the side that is compared


def ratio(costs: Mapping[str, Cost]) -> float:
    """Return the last side divided by the first; 1 means that the difference does not matter."""
    first, *_, last = costs.values()
    return last.median / first.median
