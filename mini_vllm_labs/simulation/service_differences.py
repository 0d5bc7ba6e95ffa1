"""Measures how much two tenants' services differ while both wait; VTC bounds this difference (arXiv 2401.00588)."""

from collections.abc import Mapping
from itertools import combinations


class ServiceDifferences:
    """Keeps, for each pair of tenants, the largest difference in service over a period in which both were always
    waiting.

    The keys of `largest` are pairs in alphabetical order, and its values have the same unit as `service`.
    """

    def __init__(self) -> None:
        self.largest: dict[tuple[str, str], float] = {}
        self._extremes: dict[tuple[str, str], tuple[float, float]] = {}

    def enter(self, service: Mapping[str, float], waiting: set[str]) -> None:
        """Record one step: each tenant's service so far, and the tenants with waiting requests."""
        self._extremes = {pair: found for pair, found in self._extremes.items() if waiting.issuperset(pair)}
        for one, other in combinations(sorted(waiting), 2):
            difference = service[one] - service[other]
            low, high = self._extremes.get((one, other), (difference, difference))
            self._extremes[one, other] = low, high = min(low, difference), max(high, difference)
            self.largest[one, other] = max(self.largest.get((one, other), 0.0), high - low)
