"""Adapts each step's threads to its work and to the machine's other processes."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch

from mini_vllm.environment import NUM_THREADS
from mini_vllm.runner.c_library import torch_threads
from mini_vllm.runner.threads.neighbours import Neighbours
from mini_vllm.runner.threads.team_size import TeamSize
from mini_vllm.runner.threads.waits import ShortWaits

# CPUs used by other processes: a machine becomes busy above the first number, and quiet again at or below the second
BUSY, QUIET = 0.3, 0.15


class StepThreads:
    """Sets the number of threads before each step, and how long waiting threads spin.

    On a quiet machine threads spin, because waking one costs 50 us. When other processes are busy, waiting threads
    sleep immediately, because spinning takes CPU time away from the thread they are waiting for. With several `sizes`,
    each kind of step gets the number of threads that is fastest for it.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        usual_size: int,
        neighbours: Neighbours,
        waits: ShortWaits,
        set_size: Callable[[int], None] = torch.set_num_threads,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.sizes, self.usual_size, self.neighbours, self.waits = sizes, usual_size, neighbours, waits
        self.set_size, self.clock = set_size, clock
        self.is_busy = False
        self.teams: dict[int, TeamSize] = {}

    @contextmanager
    def for_step(self, num_tokens: int) -> Iterator[None]:
        """Choose the threads for a step with this many tokens, and learn from its duration."""
        if self.neighbours.look():
            self._adapt_to(self.neighbours.busy_cpus)
        num_low_bits = max(0, num_tokens.bit_length() - 2)
        kind = num_tokens >> num_low_bits << num_low_bits  # rounded down to 1, 2, 3, 4, 6, 8, 12, 16, 24, ...
        if kind not in self.teams:
            self.teams[kind] = TeamSize(self.sizes, is_busy=self.is_busy)
        team = self.teams[kind]
        self.set_size(team.current)
        started = self.clock()
        yield
        team.note(self.clock() - started, num_tokens)

    def fix(self) -> None:
        """Compute every step on `usual_size` threads from now on, so that measured times are comparable."""
        self.sizes, self.teams = [self.usual_size], {}
        self.set_size(self.usual_size)

    def _adapt_to(self, busy_cpus: float) -> None:
        is_busy = busy_cpus > (QUIET if self.is_busy else BUSY)
        if is_busy != self.is_busy:
            self.is_busy = is_busy
            self.waits.switch(on=is_busy)
            for team in self.teams.values():
                team.restart(is_busy=is_busy)


@cache
def all_threads() -> int:
    """Return the number of threads that torch chose before the first model was loaded."""
    return torch.get_num_threads()


def use_one_thread() -> None:
    """Compute on one thread until the first step, unless `OMP_NUM_THREADS` is set.

    libgomp counts the threads of all teams and lets them spin only if they do not outnumber the CPUs. Each Python
    thread that computes on several threads has its own team, so only the thread that computes the steps should have
    one.
    """
    if all_threads() > 1 and not NUM_THREADS.get():
        torch.set_num_threads(1)


def step_threads(*, is_small: bool, may_vary: bool) -> StepThreads | None:
    """Return the object that sets an engine's thread count on a CPU, or None if `OMP_NUM_THREADS` fixes it.

    `may_vary` means that the results do not depend on the number of threads. Otherwise the number of threads is fixed:
    1 for a small model.
    """
    if NUM_THREADS.get() or all_threads() == 1:
        return None
    usual_size = 1 if is_small else all_threads()
    halves = [all_threads() >> shift for shift in range(all_threads().bit_length())]
    return StepThreads(halves if may_vary else [usual_size], usual_size, Neighbours(), ShortWaits(torch_threads()))
