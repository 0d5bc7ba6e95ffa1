"""Runs to draw: small runs with little memory, many requests in a large pool, and the course's own recordings."""

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm_labs.fresh.jobs import play_workload
from mini_vllm_labs.runs.parity.scenario import PUBLIC_TRACES, read_scenarios
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, Run, make_workload
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from tests.engine.workloads import draft_half_right

THREE = [
    TimedRequest(0, "A", [65] * 4, max_tokens=9),
    TimedRequest(0, "B", [66] * 4, max_tokens=5),
    TimedRequest(0, "C", [67] * 4, max_tokens=5),
]
OBSERVED = Path(__file__).parents[2] / "labs" / "observed"
LARGE = EngineConfig(
    max_num_seqs=8, max_num_batched_tokens=256, long_prefill_token_threshold=128, max_model_len=1024, num_gpu_blocks=201
)


def played(arrivals: list[TimedRequest], config: EngineConfig, lineup: str = "solution:1-5") -> Recording:
    run = Run(arrivals, config, parse_lineup(lineup))
    draft_half_right(run.engine)
    while not run.finished:
        run.step()
    return Recording.of(run.engine)


def in_blocks_of_4(requests: list[TimedRequest], num_blocks: int, phases: int, **settings: Any) -> Recording:
    """Run the requests with only the first `phases` phases, even if the run stalls."""
    fixed = {"max_num_batched_tokens": 40, "max_model_len": 40, "block_size": 4, "num_gpu_blocks": num_blocks + 1}
    config = EngineConfig(**(fixed | settings))
    lineup = parse_lineup(",".join(f"solution:{phase}" for phase in range(1, phases + 1)))
    return play_workload(requests, config, lineup).recording


@cache
def small(seed: int = 0, num_requests: int = 4, caching: bool = True) -> Recording:
    """Four requests, 20 blocks of 4 tokens, preemptions and hits."""
    return played(make_workload(seed, num_requests), replace(SMALL_POOL, enable_prefix_caching=caching))


@cache
def explained(seed: int = 1, num_requests: int = 8) -> Recording:
    """Requests that wait for slots, tokens and blocks, with their reasons."""
    return play_workload(make_workload(seed, num_requests), SMALL_POOL, parse_lineup("solution:1-5")).recording


@cache
def large(num_requests: int = 12) -> Recording:
    """Twelve requests of a few hundred tokens, 200 blocks of 16 tokens."""
    rng = random.Random(1)
    shared = [rng.randrange(256) for _ in range(160)]
    arrivals = []
    for index in range(num_requests):
        prompt = shared * (index % 2) + [rng.randrange(256) for _ in range(rng.randrange(60, 420))]
        arrivals.append(TimedRequest(index // 2, f"r{index}", prompt, rng.randrange(8, 40), 0))
    return played(arrivals, LARGE)


def in_a_huge_pool(recording: Recording, num_blocks: int = 5000) -> Recording:
    """Return the run as if the pool had many more blocks, all unused."""
    return Recording(replace(recording.info, num_blocks=num_blocks), recording.steps)


@cache
def observed(name: str = "all_phases") -> Recording:
    """A trace that ships with the course."""
    return Recording.read(OBSERVED / f"{name}.jsonl")


def scenario(name: str) -> Recording:
    """A public trace of vLLM, by name."""
    found = next(scenario for scenario in read_scenarios(PUBLIC_TRACES / "named.jsonl") if scenario.name == name)
    return Recording.of_scenario(found)


@cache
def ahead(drafts: int = 4, asynchronous: bool = False, num_requests: int = 4) -> Recording:
    """Requests whose drafts are correct up to a text-dependent position, or absent if `drafts` is 0; optionally planned
    ahead."""
    speculative = SpeculativeConfig("ngram", drafts, adaptive=False) if drafts else None
    lineup = f"solution:1-5{',solution:7' * bool(drafts)}{',solution:8' * asynchronous}"
    config = replace(SMALL_POOL, speculative_config=speculative, async_scheduling=asynchronous)
    return played(make_workload(0, num_requests), config, lineup)


RANKED = [
    replace(THREE[0], priority=2),
    replace(THREE[1], arrival_time=1),
    replace(THREE[2], arrival_time=1, priority=1),
]
HEAD = list(range(100, 108))
AGAIN = [TimedRequest(0, "A", HEAD, 1), TimedRequest(1, "B", HEAD, 1), TimedRequest(1, "C", [*HEAD, 1], 1)]
A_PROMPT_AMONG_DECODES = [TimedRequest(0, "A", [65] * 4, max_tokens=12), TimedRequest(2, "B", list(range(32)), 3)]
IN_A_QUEUE = [TimedRequest(0, "A", [0] * 8, 1), TimedRequest(0, "B", [1] * 12, 1), TimedRequest(1, "C", [2] * 16, 1)]
STREAM = [TimedRequest(2 * k, f"U{k}", [k] * 4, max_tokens=2, priority=0) for k in range(4)]
STREAM.insert(1, TimedRequest(1, "N", [99] * 4, 4, priority=1))


def queued(policy: str) -> Recording:
    return in_blocks_of_4(STREAM, 32, 5, max_num_seqs=1, policy=policy)


def typed(threshold: int) -> Recording:
    return in_blocks_of_4(A_PROMPT_AMONG_DECODES, 20, 5, long_prefill_token_threshold=threshold)
