"""Runs policies on seeded loads, with the same requests for each policy, and one process per core."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, Protocol

from mini_vllm import EngineConfig, Lineup
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm_labs.policies.named import find_policy
from mini_vllm_labs.runs.dask_client import dask_client
from mini_vllm_labs.runs.workloads.simulated_time import VirtualClock
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.arena.figures import Accounts, Figures, figures_of
from mini_vllm_labs.simulation.cost_model import CostModel
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.simulation import Simulation, output_lengths

# 97.5% points of Student's t distribution for 1 to 9 degrees of freedom; for more, the normal distribution is close
# enough.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
NORMAL_975 = 1.96


class AnyLoad(Protocol):
    """Returns a seed's requests in order of arrival. Must be picklable, because it is sent to other processes."""

    def requests(self, seed: int) -> list[TimedRequest]: ...


@dataclass(frozen=True, slots=True)
class Race:
    """One simulation of a policy on a load with a seed, with everything that a separate process needs."""

    policy: str
    load: AnyLoad
    seed: int
    engine: EngineConfig
    cost: CostModel
    lineup: Lineup


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean over seeds, and half the width of its 95% confidence interval (nan for one seed)."""

    mean: float
    margin: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        if len(values) < 2:
            return cls(fmean(values), math.nan)
        t = T_975[len(values) - 2] if len(values) - 2 < len(T_975) else NORMAL_975
        mean, margin = fmean(values), t * stdev(values) / math.sqrt(len(values))
        # A trace's seeds change only the order of summation.
        return cls(mean, margin if margin > 1e-9 * abs(mean) else 0.0)


def run_race(race: Race) -> Figures:
    """Simulate one race. Raises `ValueError` for a request that can never be served."""
    requests = race.load.requests(race.seed)
    policy = find_policy(race.policy).make(output_lengths(requests))
    served, accounts = serve_requests(requests, policy, race.engine, race.cost, race.lineup)
    return figures_of(served, accounts)


def serve_requests(
    requests: Sequence[TimedRequest], policy: SchedulingPolicy, engine: EngineConfig, cost: CostModel, lineup: Lineup
) -> tuple[Served, Accounts]:
    """Simulate requests under a policy, and return their times and accounts. Raises the same errors as
    `Simulation.run`."""
    clock = VirtualClock()
    scheduler = build_scheduler(engine, lineup, policy=policy, clock=lambda: clock.now)
    accounts = Accounts(scheduler, lambda: clock.now, len({request.tenant for request in requests}))
    return Simulation(requests, scheduler, cost, clock=clock, on_step=accounts.on_step).run(), accounts


def run_races(
    races: Sequence[Race], dask: str | None = None, on_finished: Callable[[int], None] = lambda num_finished: None
) -> list[Figures]:
    """Run the races on all cores, or on the cluster whose scheduler is at `dask`; return the figures in order.

    A race depends only on its own values, so its results are the same wherever it runs. Raises `ValueError` if dask is
    not installed or its scheduler does not respond.
    """
    with workers(dask, len(races)) as submit:
        futures = {submit(run_race, race): number for number, race in enumerate(races)}
        for num_finished, future in enumerate(_completed(futures, dask), start=1):
            future.result()  # makes a failing race end the contest immediately rather than after the last race
            on_finished(num_finished)
        return [future.result() for future in futures]


@contextmanager
def workers(dask: str | None, num_races: int) -> Iterator[Callable[..., Any]]:
    """Yield a function that submits a call to a worker process and returns a future."""
    if dask is None:
        with ProcessPoolExecutor(min(os.cpu_count() or 1, num_races)) as pool:
            yield pool.submit
        return
    with dask_client(dask) as client:
        yield lambda function, race: client.submit(function, race, pure=False)


def _completed(futures: dict[Any, int], dask: str | None) -> Iterator["Future[Figures]"]:
    if dask is None:
        return as_completed(futures)
    from distributed import as_completed as completed

    return iter(completed(list(futures)))
