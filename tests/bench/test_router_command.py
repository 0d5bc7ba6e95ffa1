"""`mini-vllm bench router`: a fleet of one is `simulate`, and a router that knows prefixes computes fewer tokens."""

import json
from dataclasses import replace

import pytest

from bench.fleet import simulate_fleet
from course.simulator.experiment import Experiment
from course.simulator.simulation import simulate
from course.simulator.workloads import make_requests
from mini_vllm.assembly.lineup import parse_lineup
from serving.router.policies import LeastLoaded, PrefixAware, RoundRobin, Router
from tests.cli.conftest import Commands

LINEUP = parse_lineup("solution:1-5")
EXPERIMENT = Experiment("shared-prefix", 300, 100.0)


def run(router: Router, num_replicas: int, **engine: int) -> dict[str, object]:
    config = replace(EXPERIMENT.resolved_engine(), **engine)  # type: ignore[arg-type]
    requests = make_requests("shared-prefix", 300, 100.0)
    served = simulate_fleet(requests, config, EXPERIMENT.cost, LINEUP, router, num_replicas)
    assert sum(one.num_finished for one in served.simulations) == len(requests)
    assert min(served.times_to_first_token) > 0
    return {"hits": served.hit_rate, "computed": served.num_computed_tokens, "first": served.times_to_first_token}


@pytest.mark.parametrize("router", [RoundRobin(), LeastLoaded(), PrefixAware()])
def test_a_fleet_of_one_is_one_engine(router: Router) -> None:
    alone = simulate(make_requests("shared-prefix", 300, 100.0), EXPERIMENT.resolved_engine(), EXPERIMENT.cost, LINEUP)
    found = run(router, 1)
    assert found["first"] == alone.times_to_first_token
    assert found["hits"] == pytest.approx(alone.hit_rate)


def test_a_router_that_knows_prefixes_lets_the_caches_hit_more() -> None:
    by_turns, by_prefix = run(RoundRobin(), 4), run(PrefixAware(), 4)
    assert by_prefix["hits"] > by_turns["hits"] + 0.1  # type: ignore[operator]
    assert by_prefix["computed"] < 0.8 * by_turns["computed"]  # type: ignore[operator]


def test_without_prefix_caches_it_does_not_matter_which_replica_knows_what() -> None:
    off = {"enable_prefix_caching": False}
    assert run(PrefixAware(), 4, **off)["computed"] == run(RoundRobin(), 4, **off)["computed"]


def test_the_command_prints_the_three_routers(mini_vllm: Commands) -> None:
    shown = mini_vllm("bench", "router", "--requests", 200).output
    for name in ("round robin", "least loaded", "prefix-aware"):
        assert shown.count(name) >= 2
    record = json.loads(mini_vllm("bench", "router", "chat", "--requests", 200, "--replicas", 2, "--json").stdout)
    assert (record["workload"], record["replicas"]) == ("chat", 2)
    assert all(0 < one["hit_rate"] < 1 for one in record["routers"].values())
