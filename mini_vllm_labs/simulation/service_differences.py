"""How far apart the service of two tenants gets while both have to wait: what VTC bounds (arXiv 2401.00588)."""

from collections.abc import Mapping
from itertools import combinations


class ServiceDifferences:
    """For each pair of tenants the largest difference of their services over a time in which both waited throughout.

    `largest` has the pairs in alphabetical order, in the unit of the service that is given.
    """

    def __init__(self) -> None:
        self.largest: dict[tuple[str, str], float] = {}
        self._extremes: dict[tuple[str, str], tuple[float, float]] = {}

    def enter(self, service: Mapping[str, float], waiting: set[str]) -> None:
        """Enter one step: each tenant's service so far, and the tenants that have requests waiting."""
        self._extremes = {pair: found for pair, found in self._extremes.items() if waiting.issuperset(pair)}
        for one, other in combinations(sorted(waiting), 2):
            difference = service[one] - service[other]
            low, high = self._extremes.get((one, other), (difference, difference))
            self._extremes[one, other] = low, high = min(low, difference), max(high, difference)
            self.largest[one, other] = max(self.largest.get((one, other), 0.0), high - low)
