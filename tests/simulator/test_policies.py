"""The policies on one arrival trace: which requests each favours, and which it delays."""

from statistics import fmean

import pytest

from course.simulator.cost_model import gpu_cost_model
from course.simulator.gpus import find_gpu
from course.simulator.model_shapes import find_model_shape
from course.simulator.policies import NORMAL, POLICIES, URGENT, under_policy
from course.simulator.served import Served
from course.simulator.simulation import simulate
from course.simulator.workloads import make_requests
from mini_vllm import EngineConfig, parse_lineup

COST = gpu_cost_model(find_gpu("L4"), find_model_shape("Qwen2.5-7B"))
CONFIG = EngineConfig(max_num_seqs=16, max_num_batched_tokens=1024, max_model_len=32_768, num_gpu_blocks=600)
REQUESTS = make_requests("burst", 200, rate=4.0)


@pytest.fixture(scope="module")
def served() -> dict[str, Served]:
    found: dict[str, Served] = {}
    for name in POLICIES:
        requests, config = under_policy(name, REQUESTS, CONFIG)
        found[name] = simulate(requests, config, COST, parse_lineup("solution:1-5"))
    return found


def test_only_priorities_differ(served: dict[str, Served]) -> None:
    for found in served.values():
        assert [r.arrival_time for r in found.requests] == [r.arrival_time for r in REQUESTS]
        assert [r.num_output_tokens for r in found.requests] == [r.num_output_tokens for r in REQUESTS]


def test_shortest_first_serves_more_of_them_soon(served: dict[str, Served]) -> None:
    fcfs, shortest = (fmean(served[name].times_to_first_token) for name in ("fcfs", "shortest-first"))
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


def test_a_perfect_predictor_orders_by_the_true_length() -> None:
    requests, config = under_policy("shortest-first", REQUESTS, CONFIG, prediction_sigma=0.0)
    assert config.policy == "priority"
    assert [request.priority for request in requests] == [request.num_output_tokens for request in REQUESTS]
