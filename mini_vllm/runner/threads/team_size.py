"""Chooses the number of threads for steps with about the same work, by trying several."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

# on a busy machine, a trial must last longer than other processes' time slices
SECONDS_OF_TRIAL = {False: 0.005, True: 0.1}
MIN_PAUSE, MAX_PAUSE = 0.25, 4.0  # seconds of computing between two rounds of trials
MEMORY = 3.0  # seconds of computing after which a measurement's weight has dropped to a third
CLEARLY = 0.9  # a different team size is chosen if its steps take less than this fraction of the time
FAR_WORSE = 1.5  # in the first round, smaller teams are skipped once a team is this many times slower than the best


@dataclass(slots=True)
class TeamCost:
    """The seconds and tokens of steps that ran on a given number of threads; older steps have less weight."""

    seconds: float = 0.0
    num_tokens: float = 0.0

    @property
    def cost(self) -> float:
        return self.seconds / self.num_tokens

    def add(self, other: "TeamCost") -> None:
        self.seconds, self.num_tokens = self.seconds + other.seconds, self.num_tokens + other.num_tokens

    def fade(self, seconds: float) -> None:
        share = exp(-seconds / MEMORY)
        self.seconds, self.num_tokens = share * self.seconds, share * self.num_tokens


class TeamSize:
    """Tries team sizes, keeps the fastest, and tries its neighbours again after pauses.

    A trial lasts for `SECONDS_OF_TRIAL` of compute time, and pauses double while the result stays the same. Steps
    between trials count as well: on a busy machine, one step can take 100 times as long as another.
    """

    def __init__(self, sizes: Sequence[int], *, is_busy: bool) -> None:
        self.sizes = sorted(sizes, reverse=True)
        self.restart(is_busy=is_busy)

    def restart(self, *, is_busy: bool) -> None:
        """Forget all recorded times, because they were measured when the load from other processes was different.

        On a busy machine, the first trials start only after a pause, because trials are slow there and using all
        threads is a good first choice.
        """
        self.seconds_of_trial = SECONDS_OF_TRIAL[is_busy]
        self.best, self.pause, self.since_round = self.sizes[0], MIN_PAUSE, 0.0
        self.measured: dict[int, TeamCost] = {}
        self.untried, self.skips_step = [] if is_busy else self.sizes[:], True
        self.window = TeamCost()

    @property
    def current(self) -> int:
        """The number of threads for the next step."""
        return self.untried[0] if self.untried else self.best

    def note(self, seconds: float, num_tokens: int) -> None:
        """Record a step that ran on `current` threads."""
        if len(self.sizes) == 1:
            return
        if self.skips_step and seconds < self.seconds_of_trial:
            self.skips_step = False  # that step woke the threads of a new team
            return
        self.window.add(TeamCost(seconds, num_tokens))
        if self.window.seconds < self.seconds_of_trial:
            return
        found, self.window = self.window, TeamCost()
        for one in self.measured.values():
            one.fade(found.seconds)
        self.measured.setdefault(self.current, TeamCost()).add(found)
        if self.untried:
            self._end_trial()
        else:
            self._keep(found.seconds)

    def _end_trial(self) -> None:
        tried, costs = self.untried.pop(0), {size: one.cost for size, one in self.measured.items()}
        fastest = min(costs, key=costs.__getitem__)
        if len(costs) < len(self.sizes) and costs[tried] > FAR_WORSE * costs[fastest]:
            self.untried = []
        self.skips_step = True
        if not self.untried:
            is_better = costs[fastest] < CLEARLY * costs[self.best]
            self.pause = MIN_PAUSE if is_better else min(2 * self.pause, MAX_PAUSE)
            self.best, self.since_round = fastest if is_better else self.best, 0.0

    def _keep(self, seconds: float) -> None:
        self.since_round += seconds
        if self.since_round >= self.pause:
            place = self.sizes.index(self.best)
            self.untried = self.sizes[max(0, place - 1) : place] + self.sizes[place + 1 : place + 2]
            self.skips_step = True
