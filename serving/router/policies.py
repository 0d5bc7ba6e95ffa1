"""Which replica gets a request.

A replica's prefix cache is its own: a conversation whose turns go to three replicas is computed three times. So the
router remembers which prefixes it has sent where. It cannot see what a replica has evicted; like a cache, it forgets
what has not been used for longest.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Protocol

Prefix = Sequence[int]
"""The key of each whole block of a prompt, chained: equal keys have equal text up to there."""


class Router(Protocol):
    """Chooses among the replicas that can be reached."""

    def choose(self, prefix: Prefix, loads: Mapping[int, int]) -> int:
        """Return one of the replicas in `loads`, which are their unfinished requests, and remember the choice."""
        ...

    def forget(self, replica: int) -> None:
        """Note that a replica has lost its cache."""
        ...


class RoundRobin:
    """One after the other, whatever they are doing."""

    def __init__(self) -> None:
        self._turns = count()

    def choose(self, prefix: Prefix, loads: Mapping[int, int]) -> int:
        return sorted(loads)[next(self._turns) % len(loads)]

    def forget(self, replica: int) -> None:
        pass


class LeastLoaded:
    """The one with the fewest unfinished requests."""

    def choose(self, prefix: Prefix, loads: Mapping[int, int]) -> int:
        return min(loads, key=lambda replica: (loads[replica], replica))

    def forget(self, replica: int) -> None:
        pass


class PrefixAware:
    """The one that knows the longest prefix; of several the least loaded.

    A replica that has more than `most_imbalance` unfinished requests more than the least loaded one is passed over:
    computing a prefix again is cheaper than waiting for long. (SGLang's router: `balance_abs_threshold`.)
    """

    def __init__(self, max_blocks_known: int = 1 << 16, most_imbalance: int = 16) -> None:
        self.max_blocks_known = max_blocks_known
        self.most_imbalance = most_imbalance
        self._known: dict[int, OrderedDict[int, None]] = {}

    def choose(self, prefix: Prefix, loads: Mapping[int, int]) -> int:
        least = min(loads.values())
        near = [replica for replica, load in loads.items() if load - least <= self.most_imbalance]
        chosen = min(near, key=lambda replica: (-self.num_known_blocks(prefix, replica), loads[replica], replica))
        self._remember(prefix, chosen)
        return chosen

    def forget(self, replica: int) -> None:
        self._known.pop(replica, None)

    def num_known_blocks(self, prefix: Prefix, replica: int) -> int:
        """Return how many of the prefix's first blocks a replica has been sent before."""
        known: Mapping[int, None] = self._known.get(replica, {})
        return next((number for number, key in enumerate(prefix) if key not in known), len(prefix))

    def _remember(self, prefix: Prefix, replica: int) -> None:
        known = self._known.setdefault(replica, OrderedDict())
        # Back to front: the last blocks of a prefix are forgotten first, as in the block pool.
        for key in reversed(prefix):
            known[key] = None
            known.move_to_end(key)
        while len(known) > self.max_blocks_known:
            known.popitem(last=False)


def chained(blocks: Sequence[object]) -> list[int]:
    """Return the keys of a prompt's whole blocks: each covers all blocks before it."""
    keys, key = [], 0
    for block in blocks:
        key = hash((key, block))
        keys.append(key)
    return keys
