"""The seconds per reason add up to the time without a token, and the remedy changes the most limiting setting."""

from collections import Counter
from dataclasses import replace

import pytest

from mini_vllm import EngineConfig, parse_lineup
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.cost_model import CostModel
from mini_vllm_labs.simulation.experiment import Experiment
from mini_vllm_labs.simulation.relief import by_mark, relieved
from mini_vllm_labs.simulation.simulation import simulate
from mini_vllm_labs.simulation.waiting import WaitingTimes

LINEUP = parse_lineup("solution:1-5")
COST = CostModel(0, 0, 0, 0, 0, bandwidth=1, flop_rate=1, seconds_per_step=1)
ROOMY = EngineConfig(max_model_len=64, num_gpu_blocks=65, block_size=4, max_num_seqs=8, max_num_batched_tokens=64)
TIGHT = {
    "seats": replace(ROOMY, max_num_seqs=2),
    "tokens": replace(ROOMY, max_num_batched_tokens=8, long_prefill_token_threshold=2),
    "blocks": replace(ROOMY, num_gpu_blocks=9),
}


NUM_REQUESTS, NUM_TOKENS = 6, 8
REQUESTS = [TimedRequest(0.0, str(n), [n + 1] * 12, max_tokens=NUM_TOKENS) for n in range(NUM_REQUESTS)]


@pytest.mark.parametrize("mark", TIGHT)
def test_seconds_by_reason_are_those_without_a_token(mark: str) -> None:
    """Each step takes one second and counts the requests that have arrived and are unfinished, minus those in the
    plan."""
    waits, tokens, num_without = WaitingTimes(), Counter[str](), 0

    def count(plan: SchedulerOutput, sampling: dict[str, Request]) -> None:
        nonlocal num_without
        num_unfinished = NUM_REQUESTS - sum(number == NUM_TOKENS for number in tokens.values())
        num_without += num_unfinished - len(plan.num_scheduled_tokens)
        tokens.update(sampling.keys())

    simulate(REQUESTS, TIGHT[mark], COST, LINEUP, on_step=count, waits=waits)
    assert sum(waits.seconds.values()) == num_without > 0
    assert next(iter(by_mark(waits.seconds))) == mark
    roomy = WaitingTimes()
    simulate(REQUESTS, ROOMY, COST, LINEUP, waits=roomy)
    assert sum(roomy.seconds.values()) < num_without / 2


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("seats", "max_num_seqs 512 instead of 256"),
        ("tokens", "max_num_batched_tokens 4096 instead of 2048"),
        ("whole_prompt", "enable_chunked_prefill on"),
        ("policy", None),
    ],
)
def test_the_setting_that_bound_most_is_moved(name: str, what: str | None) -> None:
    change = relieved(Experiment(), {name: 5.0, "preempted": 2.0, "blocks": 1.0})
    assert (change and change[0]) == what


def test_preemptions_and_missing_blocks_call_for_blocks() -> None:
    experiment = Experiment(engine=EngineConfig(max_num_seqs=256, num_gpu_blocks=1000))
    change = relieved(experiment, {"seats": 3.0, "preempted": 2.0, "blocks": 1.0, "closed": 1.0})
    assert change is not None
    assert change[0] == "num_gpu_blocks 2000 instead of 1000"
    assert change[1].resolved_engine().num_gpu_blocks == 2000


def test_nothing_is_moved_if_nothing_waited() -> None:
    assert relieved(Experiment(), {}) is None
