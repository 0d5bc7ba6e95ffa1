"""The policies on one arrival trace: which requests each policy favours, and which it delays."""

from dataclasses import replace
from statistics import fmean

import pytest

from mini_vllm import EngineConfig, parse_lineup
from mini_vllm_labs.policies.named import POLICIES
from mini_vllm_labs.runs.workloads.urgency import NORMAL, URGENT, URGENT_SHARE, with_urgent
from mini_vllm_labs.simulation.cost_model import gpu_cost_model
from mini_vllm_labs.simulation.experiment import Experiment
from mini_vllm_labs.simulation.gpus import find_gpu
from mini_vllm_labs.simulation.model_shapes import find_model_shape
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.simulation import ENGINES_OWN, output_lengths, simulate, simulate_under
from mini_vllm_labs.simulation.workloads import make_requests

COST = gpu_cost_model(find_gpu("L4"), find_model_shape("Qwen2.5-7B"))
CONFIG = EngineConfig(max_num_seqs=16, max_num_batched_tokens=1024, max_model_len=32_768, num_gpu_blocks=600)
REQUESTS = with_urgent(make_requests("burst", 200, rate=4.0))
LINEUP = parse_lineup("solution:1-5")


@pytest.fixture(scope="module")
def served() -> dict[str, Served]:
    return {name: simulate_under(name, REQUESTS, CONFIG, COST, LINEUP) for name in ("fcfs", "priority", "sjf")}


def test_one_request_in_five_is_urgent_and_nothing_else_differs() -> None:
    plain = make_requests("burst", 2_000, rate=4.0)
    marked = with_urgent(plain)
    assert fmean(request.priority == URGENT for request in marked) == pytest.approx(URGENT_SHARE, abs=0.02)
    assert {request.priority for request in marked} == {URGENT, NORMAL}
    assert [(r.arrival_time, r.num_output_tokens) for r in marked] == [
        (r.arrival_time, r.num_output_tokens) for r in plain
    ]
    assert with_urgent(plain, seed=1) != marked == with_urgent(plain)


def test_shortest_first_serves_more_of_them_soon(served: dict[str, Served]) -> None:
    fcfs, shortest = (fmean(served[name].times_to_first_token) for name in ("fcfs", "sjf"))
    assert shortest < 0.9 * fcfs


def test_urgent_requests_run_before_the_others(served: dict[str, Served]) -> None:
    found = served["priority"]
    times = {
        priority: fmean(
            t for r, t in zip(found.requests, found.times_to_first_token, strict=True) if r.priority == priority
        )
        for priority in (URGENT, NORMAL)
    }
    assert times[URGENT] < 0.5 * times[NORMAL]


@pytest.mark.parametrize("name", ENGINES_OWN)
def test_the_engines_own_policies_are_those_of_the_seam(name: str) -> None:
    short = replace(CONFIG, num_gpu_blocks=200)
    policy = POLICIES[name].make(output_lengths(REQUESTS))
    by_seam = simulate(REQUESTS, short, COST, LINEUP, policy=policy)
    assert simulate_under(name, REQUESTS, short, COST, LINEUP) == by_seam
    assert by_seam.num_preemptions


@pytest.mark.parametrize("name", POLICIES)
def test_an_experiment_runs_under_every_policy_by_its_name(name: str) -> None:
    experiment = Experiment("burst", 40, rate=40.0, policy=name)
    experiment.require_legal()
    assert len(experiment.run(LINEUP).finished_times) == 40
