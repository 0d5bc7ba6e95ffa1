"""What the cost of scheduling is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Cost:
    """Microseconds of CPU time per request, over several rounds."""

    best: float
    median: float
    worst: float

    @classmethod
    def of(cls, seconds: Sequence[float], num_requests: int) -> "Cost":
        """Divide the rounds' seconds by the requests that each of them handled."""
        each = [1e6 * value / num_requests for value in seconds]
        return cls(min(each), median(each), max(each))

    def __str__(self) -> str:
        return f"{self.median:.2f} us ({self.best:.2f} to {self.worst:.2f})"


@dataclass(frozen=True)
class Admissions:
    """The cost of admitting a request: at arrival (hashing its prompt), in `schedule()`, in the update."""

    arrival: Cost
    schedule: Cost
    update: Cost

    @property
    def together(self) -> Cost:
        """The sum of the three."""
        parts = (self.arrival, self.schedule, self.update)
        names = ("best", "median", "worst")
        return Cost(*(sum(getattr(part, name) for part in parts) for name in names))

    def __str__(self) -> str:
        return str(self.together)


@dataclass(frozen=True)
class TwoSizes:
    """The cost with something small and with something large, per decode or per look-up."""

    small: Cost
    large: Cost

    @property
    def ratio(self) -> float:
        """Large over small; 1 means that the size does not matter."""
        return self.large.median / self.small.median

    def __str__(self) -> str:
        return f"{self.small}, {self.large}"


@dataclass(frozen=True)
class SchedulerCosts:
    """All measurements of one run. `bookkeeping` is the baseline, in the order of `decodes`.

    `queues` are an empty and a long one, `joining` is the cost of joining the long one. Without phase 2 these three
    are None: a million single slots would take too long. `look_ups` are without and with sliding windows.
    """

    decodes: dict[int, Cost]
    bookkeeping: dict[int, Cost]
    admissions: Admissions
    pools: TwoSizes | None = None
    queues: TwoSizes | None = None
    joining: Cost | None = None
    look_ups: TwoSizes | None = None
