"""A step's threads adapt to its work and to the machine; times, other processes' load and libgomp are simulated."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mini_vllm import LLM, EngineConfig, SamplingParams
from mini_vllm.environment import THREADS
from mini_vllm.runner.threads import step_threads
from mini_vllm.runner.threads.neighbours import CPUReading, Neighbours
from mini_vllm.runner.threads.step_threads import StepThreads
from mini_vllm.runner.threads.waits import ShortWaits
from tests.compiler import needs_compiler

# how many seconds a step takes, as a function of its tokens, its threads, and whether waits are short
Cost = Callable[[int, int, bool], float]


@dataclass
class Machine:
    """A machine with two CPUs and a clock that advances only when a step runs."""

    cost: Cost
    now: float = 0.0
    busy: float = 0.0
    size: int = 0
    others_work: float = 0.0
    own_work: float = 0.0
    short_waits: bool = False
    ran: list[tuple[float, int, bool]] = field(default_factory=list)

    def reading(self) -> CPUReading:
        return CPUReading(self.now, self.others_work + self.own_work, self.own_work)

    def switch(self, *, on: bool) -> None:
        self.short_waits = on

    def set_size(self, size: int) -> None:
        self.size = size

    def threads(self, sizes: tuple[int, ...] = (1, 2)) -> StepThreads:
        neighbours, switch = Neighbours(self.reading, lambda: self.now), SimpleNamespace(switch=self.switch)
        return StepThreads(sizes, sizes[-1], neighbours, switch, self.set_size, lambda: self.now)  # type: ignore[arg-type]

    def run(self, threads: StepThreads, seconds: float, num_tokens: int = 8) -> None:
        """Compute steps for this many seconds."""
        end, self.ran = self.now + seconds, []
        while self.now < end:
            with threads.for_step(num_tokens):
                spent = self.cost(num_tokens, self.size, self.short_waits)
                self.now, self.own_work = self.now + spent, self.own_work + spent
                self.others_work += self.busy * spent
            self.ran.append((spent, self.size, self.short_waits))

    def share(self, size: int) -> float:
        """Return the fraction of the last `run`'s time that was spent in steps on `size` threads."""
        return sum(spent for spent, found, _ in self.ran if found == size) / sum(spent for spent, *_ in self.ran)


def faster(size: int) -> Cost:
    return lambda tokens, found, short: 1e-3 if found == size else 1.4e-3


@pytest.mark.parametrize("busy", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("size", [1, 2])
def test_the_faster_number_of_threads_is_found_and_kept(size: int, busy: float) -> None:
    machine = Machine(faster(size), busy=busy)
    threads = machine.threads()
    machine.run(threads, 0.5)
    machine.run(threads, 20)
    assert machine.share(size) > 0.95
    assert machine.short_waits == (busy > 0)


def test_each_size_of_a_step_has_its_own_number() -> None:
    machine = Machine(lambda tokens, size, short: 1e-3 * (1 if (size == 2) == (tokens > 8) else 1.5))
    threads = machine.threads()
    for _ in range(2):
        machine.run(threads, 0.4, 4)
        small = machine.share(1)
        machine.run(threads, 0.4, 64)
    assert min(small, machine.share(2)) > 0.9


@pytest.mark.parametrize(("before", "after"), [(0.0, 1.0), (0.0, 8.0), (1.0, 0.0), (2.0, 0.0)])
def test_a_neighbour_that_comes_or_goes_shows_within_half_a_second(before: float, after: float) -> None:
    machine = Machine(lambda tokens, size, short: 0.0)

    def cost(
        tokens: int, size: int, short: bool
    ) -> float:  # one thread is best on a busy machine, and two on a quiet one
        return 1e-3 if (size == 1) == (machine.busy > 0) else 2e-3

    machine.cost, machine.busy = cost, before
    threads = machine.threads()
    machine.run(threads, 10)
    machine.busy = after
    machine.run(threads, 0.5)
    machine.run(threads, 0.5)
    assert machine.share(1 if after else 2) > 0.75
    assert machine.short_waits == (after > 0)


def test_one_slow_step_changes_nothing_and_slower_ones_do() -> None:
    machine = Machine(faster(2), busy=1)
    threads = machine.threads()
    machine.run(threads, 5)
    machine.cost = lambda tokens, size, short: 0.08
    machine.run(threads, 0.05)
    machine.cost = faster(2)
    machine.run(threads, 5)
    assert machine.share(2) > 0.9
    machine.cost = faster(1)
    machine.run(threads, 10)
    machine.run(threads, 5)
    assert machine.share(1) > 0.9


def test_a_fixed_number_stays_and_its_waits_adapt() -> None:
    machine = Machine(faster(1), busy=2)
    threads = machine.threads()
    threads.fix()
    machine.run(threads, 1)
    assert machine.share(2) == 1
    assert machine.short_waits


def test_a_reading_after_a_pause_does_not_count() -> None:
    readings = iter([CPUReading(0, 0, 0), CPUReading(9, 18, 0), CPUReading(9.2, 18.2, 0.1)])
    clock = iter([9.0, 9.2])
    neighbours = Neighbours(lambda: next(readings), lambda: next(clock))
    assert not neighbours.look()
    assert neighbours.look()
    assert neighbours.busy_cpus == pytest.approx(0.25)


def test_short_waits_hold_more_threads_than_cpus_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """libgomp's manual, GCC 15, "GOMP_SPINCOUNT": fewer spins while there are more OpenMP threads than CPUs."""
    teams: list[int] = []
    library = SimpleNamespace(
        omp_get_level=None, GOMP_parallel=lambda function, data, size, flags: teams.append(size.value)
    )
    monkeypatch.setattr("ctypes.cast", lambda pointer, kind: pointer)
    short = ShortWaits([])
    short.switch(on=True)
    assert not teams, "torch without libgomp"
    short.library = library  # type: ignore[assignment]
    for on in (True, True, False, True, False):
        short.switch(on=on)
        assert (short.crowd is not None) == on
    assert teams == [len(os.sched_getaffinity(0)) + 1] * 2


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "50000"),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "None"),
    ],
)
def test_spinning_is_bounded_before_torch_is_loaded(given: dict[str, str], found: str) -> None:
    code = (
        "import sys, os, mini_vllm; from mini_vllm.environment import *; assert 'torch' not in sys.modules; "
        "print(os.environ.get('GOMP_SPINCOUNT'))"
    )
    clean = {name: value for name, value in os.environ.items() if name not in {one.name for one in THREADS}}
    done = subprocess.run([sys.executable, "-c", code], env=clean | given, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == found


@pytest.fixture
def adapting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Behaves as if torch had chosen 4 threads and the user had not set a number."""
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.setattr(step_threads, "all_threads", lambda: 4)
    yield
    torch.set_num_threads(before)


@needs_compiler
@pytest.mark.parametrize(
    ("given", "config", "sizes"),
    [("", {}, [4, 2, 1]), ("", {"prepack_weights": False}, [1]), ("3", {}, None)],
)
def test_only_an_engine_in_c_varies_its_threads_and_a_given_number_wins(
    adapting: None, monkeypatch: pytest.MonkeyPatch, given: str, config: dict[str, Any], sizes: list[int] | None
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    runner: Any = LLM(config=EngineConfig(num_gpu_blocks=8, **config)).engine.runner
    assert (None if runner.threads is None else runner.threads.sizes) == sizes


@needs_compiler
def test_tokens_and_logprobs_stay_equal_while_the_number_of_threads_changes(adapting: None) -> None:
    """In the last run, the number of threads changes with every step, and prompts are long enough to use several."""
    prompts = ["Once upon a time " * 40, "Tom had a red ball.", "The cat " * 90]
    found = []
    for sizes in ([1], [2], [1, 2, 3]):
        runner: Any = (llm := LLM(config=EngineConfig(num_gpu_blocks=200))).engine.runner
        numbers = cycle(sizes)
        runner.threads.set_size = lambda chosen, numbers=numbers: torch.set_num_threads(next(numbers))
        outputs = llm.generate(prompts, SamplingParams(max_tokens=24, logprobs=3))
        found.append([(one.outputs[0].token_ids, one.outputs[0].logprobs) for one in outputs])
    assert found[0] == found[1] == found[2]
