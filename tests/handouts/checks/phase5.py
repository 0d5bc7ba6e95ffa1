"""Functions for the `<!-- check: ... -->` comments in the phase 5 handout: small runs of the reference."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import ceil
from statistics import pstdev
from typing import Any

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm.core.request import RequestStatus
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.fresh.jobs import play_workload
from mini_vllm_labs.grading.plays.phase5_plays import request_in
from mini_vllm_labs.grading.plays.stand_ins import FrozenKV
from mini_vllm_labs.pictures.calculator import Setup, capacity_of
from mini_vllm_labs.policies.elastic_budget import ElasticBudget
from mini_vllm_labs.runs.workloads.two_gates import TWO_GATES, two_gates
from mini_vllm_labs.runs.workloads.urgency import URGENT, with_urgent
from mini_vllm_labs.simulation.experiment import Experiment
from mini_vllm_labs.simulation.gpus import default_budget, find_gpu
from mini_vllm_labs.simulation.simulation import simulate, simulate_under
from mini_vllm_labs.simulation.workloads import make_requests
from solutions.phase1_scheduler_step import clamp
from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy
from tests.handouts.checks.phase1 import plan_running
from tests.handouts.checks.runs import add, engine_with, finish, stage, traced_steps

Plan = dict[str, int]


def _policy(threshold: int, max_model_len: int, chunking: bool, guard: bool = False) -> ChunkedPrefillPolicy:
    return ChunkedPrefillPolicy(clamp, threshold, max_model_len, chunking, guard)


def granted(
    num_tokens: int,
    computed: int = 0,
    *,
    budget: int,
    threshold: int = 0,
    running: bool = False,
    chunking: bool = True,
    max_model_len: int = 1_000_000,
) -> int:
    status = RequestStatus.RUNNING if running else RequestStatus.WAITING
    request = request_in(status, "A", num_tokens, computed=computed)
    return _policy(threshold, max_model_len, chunking).num_new_tokens(request, computed, budget)


def plans(prompts: Sequence[int], steps: int, **settings: Any) -> list[Plan]:
    """Return the first plans for prompts of these lengths, called A, B, C and so on, with enough memory."""
    engine = _roomy_engine(**settings)
    for index, length in enumerate(prompts):
        add(engine, chr(65 + index), [index] * length, max_tokens=50)
    for _ in range(steps):
        engine.step()
    return [{share["id"]: share["n"] for share in record["scheduled"]} for record in engine.recorder.steps]


def _roomy_engine(**settings: Any) -> LLMEngine:
    room = {"max_model_len": 16_384, "num_gpu_blocks": 4_000, "enable_prefix_caching": False}
    return engine_with(**(room | settings))


def chunks(num_tokens: int, **settings: Any) -> list[int]:
    made: list[int] = []
    while sum(made) < num_tokens:
        made = [plan["A"] for plan in plans([num_tokens], len(made) + 1, **settings)]
    return made


def longest_shared_step(num_tokens: int, **settings: Any) -> tuple[int, int]:
    """Add a long prompt while A generates; return the largest step and the number of steps until it is computed."""
    engine = _roomy_engine(**settings)
    add(engine, "A", [1] * 8, max_tokens=100)
    engine.step()
    add(engine, "long", [2] * num_tokens)
    while "long" in engine.scheduler.requests:
        engine.step()
    totals = [record["total"] for record in engine.recorder.steps[1:]]
    return max(totals), len(totals)


def samples(num_prompt: int, num_outputs: int, computed: int) -> bool:
    """Return whether a request samples in the step that brings it to `computed` computed tokens."""
    request = request_in(RequestStatus.RUNNING, "A", num_prompt, num_outputs, computed=computed)
    return _policy(0, 1_000, chunking=True).should_sample(request, computed)


def admits(
    num_tokens: int, running: Sequence[tuple[int, int]], num_free: int, free_hits: int = 0, held_hits: int = 0
) -> bool:
    """Return whether the guard admits a request, with blocks of 4 tokens. `running` contains (num_tokens, blocks held);
    hits are either held by the first request or free."""
    tables: dict[str, list[int]] = {}
    requests, next_block = [], 1
    for index, (known, held) in enumerate(running):
        name = chr(65 + index)
        tables[name] = list(range(next_block, next_block + held))
        next_block += held
        requests.append(request_in(RequestStatus.RUNNING, name, known, computed=known - 1))
    hit_blocks = [*tables.get("A", [])[:held_hits], *range(next_block, next_block + free_hits)]
    kv = FrozenKV(4, tables, range(next_block, next_block + num_free))
    request = request_in(RequestStatus.WAITING, "W", num_tokens)
    return _policy(0, 1_000, chunking=True, guard=True).admits(request, hit_blocks, requests, kv)


@cache
def thrash(guard: bool, caching: bool = False) -> tuple[int, int, int]:
    """Run two growing answers and a 30-token prompt in 10 blocks of 4; return (preemptions, tokens computed, steps)."""
    engine = engine_with(
        max_model_len=40,
        block_size=4,
        num_gpu_blocks=11,
        max_num_batched_tokens=8,
        enable_prefix_caching=caching,
        admission_guard=guard,
    )
    for name, first, length, max_tokens in [("A", 0, 8, 12), ("B", 100, 8, 12), ("long", 200, 30, 2)]:
        add(engine, name, list(range(first, first + length)), max_tokens)
    steps = finish(engine)
    return sum(len(record["preempted"]) for record in steps), sum(record["total"] for record in steps), len(steps)


def num_computed_at_the_end(num_prompt: int, max_model_len: int) -> tuple[int, int]:
    """Return (tokens, computed tokens) for a request that was stopped by `max_model_len`."""
    engine = engine_with(max_model_len=max_model_len, num_gpu_blocks=100)
    add(engine, "A", list(range(num_prompt)), max_tokens=1_000)
    request = engine.scheduler.requests["A"]
    finish(engine)
    return request.num_tokens, request.num_computed_tokens


def refuses(**settings: Any) -> bool:
    try:
        EngineConfig(**settings)
    except ValueError:
        return True
    return False


@cache
def traced(*options: str) -> tuple[int, int, int]:
    """Return (largest step, preemptions, steps) as shown by `mini-vllm trace --lineup solution:1-5`."""
    steps = traced_steps("solution:1-5", *options)
    return max(step["total"] for step in steps), sum(len(step["preempted"]) for step in steps), len(steps)


def guarded(*options: str) -> tuple[int, int, int]:
    """Return (preemptions, tokens computed, steps) for the trace that thrashes in phase 3's handout."""
    steps = traced_steps("solution:1-3,solution:5", "--num-gpu-blocks", "14", "--requests", "12", *options)
    return sum(len(step["preempted"]) for step in steps), sum(step["total"] for step in steps), len(steps)


def budget_on(gpu: str, serves: bool) -> tuple[int, int]:
    return default_budget(find_gpu(gpu), serves=serves)


def activations_and_blocks(budget: int) -> tuple[int, int]:
    """Return how many MiB a step's activations take for Llama-3.1-8B, and how many blocks then fit on an H100."""
    capacity = capacity_of(Setup(max_num_batched_tokens=budget))
    return capacity.activation_bytes // 2**20, capacity.num_blocks


@cache
def gated() -> Sequence[StepRecord]:
    return play_workload(two_gates(), TWO_GATES, parse_lineup("solution:1-5")).recording.steps


def first_gate() -> tuple[int, int]:
    """Return how many 200-token prompts fit completely into step 1 with 4 decodes, and how many tokens the next
    gets."""
    shares = [one["n"] for one in gated()[1]["scheduled"]]
    return shares.count(200), shares[-1]


def both_gates() -> tuple[int, int, int, int, int]:
    """Count full steps from step 3, requests then running and waiting, and preemptions before an answer ends (total,
    per-step maximum)."""
    full = next(step["step"] for step in gated()[3:] if step["total"] < TWO_GATES.max_num_batched_tokens)
    end = next(step["step"] for step in gated() if step["finished"])
    running, waiting = len(gated()[full]["running_after"]), len(gated()[full]["waiting_after"])
    preempted = [len(step["preempted"]) for step in gated()[: end + 1]]
    return full - 3, running, waiting, sum(preempted), max(preempted)


@cache
def mixed_preset(policy: str) -> tuple[int, int]:
    """Return the p95 time to the first token in ms, for the urgent requests and for the others."""
    experiment = Experiment("mixed").with_rate()
    config = replace(
        experiment.resolved_engine(),
        max_num_batched_tokens=8192,
        long_prefill_token_threshold=1024,
        max_num_seqs=64,
    )
    marked = with_urgent(make_requests("mixed", 400, 1.6 * (experiment.rate or 0)))
    served = simulate_under(policy, marked, config, experiment.cost, parse_lineup("solution:1-5"))
    waits = sorted(zip(served.times_to_first_token, [one.priority for one in marked], strict=True))
    urgent, others = ([wait for wait, priority in waits if (priority == URGENT) is first] for first in (True, False))
    return round(1e3 * urgent[int(0.95 * len(urgent))]), round(1e3 * others[int(0.95 * len(others))])


@cache
def elastic(is_elastic: bool) -> tuple[int, float]:
    """Return the median time to the first token in ms, and the standard deviation of the time between tokens."""
    experiment = Experiment("documents").with_rate()
    config = replace(experiment.resolved_engine(), max_num_batched_tokens=2048 if is_elastic else 512)
    requests, lineup = make_requests("documents", 400, experiment.rate or 0), parse_lineup("solution:1-5")
    served = simulate(requests, config, experiment.cost, lineup, policy=ElasticBudget() if is_elastic else None)
    gaps = [seconds for seconds, count in served.gaps for _ in range(count)]
    return round(1e3 * served.median_ttft), round(1e3 * pstdev(gaps), 1)
