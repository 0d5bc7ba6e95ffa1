"""The highest request rate at which the time to the first token stays under a bound."""

import math
from dataclasses import dataclass, field

from bench.serve.report import RoundReport

MAX_UNFINISHED_SHARE = 0.1
"""A server that leaves more than this unanswered cannot keep up; its late first tokens come only after the probe."""


@dataclass(frozen=True, slots=True)
class Probed:
    """One rate: the 99th percentile of the time to the first token, in seconds, and how many requests failed.

    `left_over` is the share of the requests that piled up, as in a `RoundReport`.
    """

    rate: float
    p99_ttft: float
    num_failed: int
    left_over: float
    holds: bool


@dataclass(slots=True)
class RateSearch:
    """Every rate that was tried, in order, beginning at `first`. `bound` is in seconds.

    `highest` is the highest rate that held, `lowest_failed` the lowest that did not; None if there was none.
    """

    bound: float
    first: float
    probed: list[Probed] = field(default_factory=list)

    @property
    def highest(self) -> float | None:
        return max((probed.rate for probed in self.probed if probed.holds), default=None)

    @property
    def lowest_failed(self) -> float | None:
        return min((probed.rate for probed in self.probed if not probed.holds), default=None)

    def next_rate(self) -> float:
        """Return the rate to try next: twice or half until there is one of each kind, then the one in the middle.

        So no rate is tried above one that failed, or below one that held.
        """
        held, failed = self.highest, self.lowest_failed
        if held is None and failed is None:
            return self.first
        if failed is None:
            assert held is not None
            return 2 * held
        return failed / 2 if held is None else math.sqrt(held * failed)  # rates are compared by ratio

    def record(self, rate: float, figures: RoundReport) -> None:
        """Record what was found at a rate.

        It holds if every request was answered, p99 is at most `bound`, and the server kept up.
        """
        num_failed, p99 = sum(figures.failed.values()), figures.ttft.p99
        holds = num_failed == 0 and p99 <= self.bound and figures.left_over <= MAX_UNFINISHED_SHARE
        self.probed.append(Probed(rate, p99, num_failed, figures.left_over, holds))


def ratio(ours: RateSearch, theirs: RateSearch) -> float | None:
    """Return our highest rate over theirs; None if one of them held at no rate."""
    if ours.highest is None or theirs.highest is None:
        return None
    return ours.highest / theirs.highest
