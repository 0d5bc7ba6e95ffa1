"""A fleet of one behaves like `simulate`, and a prefix-aware router computes fewer tokens."""

from dataclasses import replace

import pytest

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.bench.fleet import FleetServed, simulate_fleet
from mini_vllm_labs.serving.router.policies import LeastLoaded, PrefixAware, RoundRobin, Router
from mini_vllm_labs.simulation.experiment import Experiment
from mini_vllm_labs.simulation.simulation import simulate
from mini_vllm_labs.simulation.workloads import make_requests

LINEUP = parse_lineup("solution:1-5")
EXPERIMENT = Experiment("shared-prefix", 300, 100.0)
REQUESTS = make_requests("shared-prefix", 300, 100.0)


def run(router: Router, num_replicas: int, *, caching: bool = True) -> FleetServed:
    config = replace(EXPERIMENT.resolved_engine(), enable_prefix_caching=caching)
    served = simulate_fleet(REQUESTS, config, EXPERIMENT.cost, LINEUP, router, num_replicas)
    assert sum(one.num_finished for one in served.simulations) == len(REQUESTS)
    assert min(served.times_to_first_token) > 0
    return served


@pytest.mark.parametrize("router", [RoundRobin(), LeastLoaded(), PrefixAware()])
def test_a_fleet_of_one_is_one_engine(router: Router) -> None:
    alone, found = simulate(REQUESTS, EXPERIMENT.resolved_engine(), EXPERIMENT.cost, LINEUP), run(router, 1)
    assert found.times_to_first_token == alone.times_to_first_token
    assert found.hit_rate == pytest.approx(alone.hit_rate)


def test_a_router_that_knows_prefixes_lets_the_caches_hit_more() -> None:
    by_turns, by_prefix = run(RoundRobin(), 4), run(PrefixAware(), 4)
    assert by_prefix.hit_rate > by_turns.hit_rate + 0.1
    assert by_prefix.num_computed_tokens < 0.8 * by_turns.num_computed_tokens
    uncached = {run(router, 4, caching=False).num_computed_tokens for router in (RoundRobin(), PrefixAware())}
    assert len(uncached) == 1, "without caches it does not matter which replica knows what"
