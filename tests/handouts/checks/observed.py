"""Functions for checking `labs/observed/README.md`: the recorded workload, run on the reference."""

from functools import cache

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.runs.workloads.fallbacks import make_possible
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload, run_workload


def pool() -> list[int]:
    """Return the trace's settings: maximum running requests, budget, threshold, usable blocks, tokens per block."""
    config = SMALL_POOL
    assert config.num_gpu_blocks is not None
    caps = [config.max_num_seqs, config.max_num_batched_tokens, config.long_prefill_token_threshold]
    return [*caps, config.num_gpu_blocks - 1, config.block_size]


@cache
def trace(lineup: str = "solution:1-5") -> list[StepRecord]:
    team = parse_lineup(lineup)
    config, _ = make_possible(SMALL_POOL, team)
    return run_workload(make_workload(seed=0, num_requests=8), config, team)


def longest(lineup: str) -> int:
    """Return the token budget of a step with this lineup; without phase 5, it is the longest request's length."""
    config, _ = make_possible(SMALL_POOL, parse_lineup(lineup))
    assert config.max_num_batched_tokens == config.max_model_len
    return config.max_model_len


def plan(step: int) -> dict[str, int]:
    return {share["id"]: share["n"] for share in trace()[step]["scheduled"]}


def hits(step: int) -> dict[str, int]:
    return {share["id"]: share["hit"] for share in trace()[step]["scheduled"] if share.get("hit")}


def waiting(step: int) -> list[str]:
    return trace()[step]["waiting_after"]


def free(step: int) -> int:
    return trace()[step]["free_after_schedule"]


def num_blocks(step: int, request_id: str) -> int:
    return next(len(share["blocks"]) for share in trace()[step]["scheduled"] if share["id"] == request_id)


def computed_before(step: int, request_id: str) -> int:
    return next(computed for name, _, computed, _ in trace()[step - 1]["running_after"] if name == request_id)


def most_running(lineup: str) -> int:
    return max(len(record["scheduled"]) for record in trace(lineup))
