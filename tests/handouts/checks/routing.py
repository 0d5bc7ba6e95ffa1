"""Functions for checking the handout on routing: the figures of `mini-vllm bench router`."""

from functools import cache
from inspect import signature

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.bench.fleet import FleetServed, simulate_fleet
from mini_vllm_labs.cli.bench.router import LOAD, ROUTERS, bench_router
from mini_vllm_labs.serving.router.policies import PrefixAware
from mini_vllm_labs.simulation.experiment import Experiment
from mini_vllm_labs.simulation.workloads import NUM_PASSAGES, PASSAGE_TOKENS, make_requests

WORKLOAD = "shared-prefix"


def num_requests() -> int:
    default = signature(bench_router).parameters["requests"].default
    assert isinstance(default, int)
    return default


@cache
def experiment() -> Experiment:
    return Experiment(WORKLOAD, num_requests(), None, 0).with_rate()


@cache
def served(router: str, num_replicas: int) -> FleetServed:
    one = experiment()
    assert one.rate is not None
    requests = make_requests(WORKLOAD, num_requests(), one.rate / 0.7 * LOAD * num_replicas, 0)
    engines = one.resolved_engine(), one.cost, parse_lineup("solution")
    return simulate_fleet(requests, *engines, ROUTERS[router](), num_replicas)


def hit_percent(router: str, num_replicas: int) -> int:
    return round(100 * served(router, num_replicas).hit_rate)


def p99_ms(router: str, num_replicas: int) -> int:
    [seconds] = served(router, num_replicas).time_to_first_token([99])
    return round(1000 * seconds)
