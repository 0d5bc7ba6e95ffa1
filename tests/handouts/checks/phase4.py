"""Functions for the `<!-- check: ... -->` comments in the phase 4 handout: small runs of the reference."""

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.grading.plays.support import make_request
from mini_vllm_labs.runs.parity.replay import ScenarioReplay
from mini_vllm_labs.runs.parity.scenario import PUBLIC_TRACES, Scenario, read_scenarios
from solutions.phase4_prefix_cache import HashPrefixCache, hash_block
from tests.handouts.checks.runs import add, engine_with, finish, stage, traced_steps


def _engine(block_size: int = 16, num_gpu_blocks: int = 1001, max_num_batched_tokens: int = 4096) -> LLMEngine:
    return engine_with(
        block_size=block_size,
        num_gpu_blocks=num_gpu_blocks,
        max_num_batched_tokens=max_num_batched_tokens,
        max_model_len=4096,
    )


def again(num_tokens: int, block_size: int = 16) -> tuple[int, int]:
    """Serve a prompt, then the same prompt again; return the second request's hit and computed tokens."""
    engine = _engine(block_size)
    for name in ("first", "again"):
        add(engine, name, list(range(num_tokens)))
        finish(engine)
    (share,) = engine.recorder.steps[-1]["scheduled"]
    return share["hit"], share["n"]


def in_one_step(num_cached: Sequence[int], num_tokens: int = 2000, budget: int = 8192) -> list[int]:
    """Return each prompt's computed tokens in the step where all prompts arrive, with their beginnings already
    cached."""
    engine = _engine(num_gpu_blocks=4001, max_num_batched_tokens=budget)
    prompts = [[number] * num_tokens for number in range(len(num_cached))]
    for number, cached in enumerate(num_cached):
        if cached:
            add(engine, f"before {number}", prompts[number][: cached + 1])
    finish(engine)
    for number, prompt in enumerate(prompts):
        add(engine, f"{number}", prompt)
    engine.step()
    return [share["n"] for share in engine.recorder.steps[-1]["scheduled"]]


def together(num_tokens: int, block_size: int = 16) -> list[int]:
    """Return the computed tokens of two identical prompts that arrive in the same step, with an empty cache."""
    engine = _engine(block_size)
    for name in ("first", "second"):
        add(engine, name, list(range(num_tokens)))
    return [share["n"] for share in finish(engine)[0]["scheduled"]]


def num_whole_prompts(num_tokens: int, num_shared: int, budget: int) -> int:
    """Return how many prompts that begin with cached tokens are fully computed in one step."""
    engine = _engine(num_gpu_blocks=20_001, max_num_batched_tokens=budget)
    rng = random.Random(0)
    shared = rng.choices(range(256), k=num_shared)
    if shared:
        add(engine, "before", [*shared, 1])
        finish(engine)
    for index in range(40):
        add(engine, str(index), shared + rng.choices(range(256), k=num_tokens - num_shared))
    engine.step()
    return len(engine.recorder.steps[-1]["output"])


def blocks_hit(num_blocks: int, lost: Sequence[int]) -> int:
    """Return how many of a prompt's cached blocks are found once the blocks numbered `lost` (from 1) have been
    reused."""
    prefix_cache = HashPrefixCache(4)
    request = make_request("A", 4 * num_blocks + 1)
    prefix_cache.cache_full_blocks(request, list(range(1, num_blocks + 1)), 0, num_blocks)
    for block_id in lost:
        prefix_cache.evict(block_id)
    return len(prefix_cache.find_longest_cache_hit(request))


def num_full_blocks(num_tokens: int, block_size: int = 16) -> int:
    request = make_request("A", num_tokens)
    HashPrefixCache(block_size).update_block_hashes(request)
    return len(request.block_hashes)


def _scenario(name: str) -> Scenario:
    return next(scenario for scenario in read_scenarios(PUBLIC_TRACES / "named.jsonl") if scenario.name == name)


@cache
def _replayed(name: str) -> list[StepRecord]:
    scenario = _scenario(name)
    replay = ScenarioReplay(scenario, parse_lineup("solution:1-5"))
    return [replay.run_step(number) for number in range(len(scenario.steps))]


def shares(name: str, step: int) -> dict[str, tuple[int, int]]:
    """Map request id to (hit, computed tokens) for the admissions in one step of a scenario."""
    return {s["id"]: (s["hit"], s["n"]) for s in _replayed(name)[step]["scheduled"] if s["kind"] != "running"}


def table(name: str, step: int, request_id: str) -> list[int]:
    return next(s["blocks"] for s in _replayed(name)[step]["scheduled"] if s["id"] == request_id)


def evicted(name: str, step: int) -> list[int]:
    return _replayed(name)[step]["evicted"]


def detail(name: str, step: int, what: str) -> Any:
    """Return `free_queue` or `cached` at the end of one step of a scenario."""
    return _replayed(name)[step]["detail"][what]


def recorded_hit(name: str, step: int) -> int:
    """Return the hit that vLLM 0.13.0 itself recorded for the only request admitted in a step."""
    (hit,) = [share["hit"] for share in _scenario(name).steps[step]["scheduled"] if "hit" in share]
    return int(hit)


def traced_totals(*options: str) -> tuple[int, int]:
    """Return how many tokens the trace computes in its first step, and in all its steps."""
    totals = [record["total"] for record in traced_steps("solution:1-4", *options)]
    return totals[0], sum(totals)
