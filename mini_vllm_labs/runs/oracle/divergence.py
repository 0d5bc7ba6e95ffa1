"""Runs the same workload on two lineups; finds the first decision that differs and the phase responsible for it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mini_vllm import EngineConfig, Lineup
from mini_vllm.assembly.lineup import ALL_NAMES
from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, Run, make_workload
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

REFERENCE = "solution:1-5,solution:7-8,solution:11"
NUM_SEEDS = 100
FIRST_AHEAD = 40
"""From this seed on, each step is planned while the previous one is computed, with three drafts per request."""
FIRST_GATED = 80
"""From this seed on, requests have adapters, but a step takes only one: requests with a different one are skipped."""
ADAPTERS = ("boat", "kite", None, "garden")
COMPARED = "scheduled preempted evicted free_after_schedule output finished running_after waiting_after detail".split()


@dataclass(frozen=True)
class Divergence:
    """The first step in which two lineups differ.

    `mine` and `reference` are the traces up to that step; `mine` ends one step earlier if it raised `error`.
    `field` names the part of the step record that differs; it is empty if there is an error.
    """

    step: int
    field: str
    mine: list[StepRecord]
    reference: list[StepRecord]
    error: BaseException | None = None


def settings_for(seed: int) -> EngineConfig:
    """Return small settings that vary with the seed: policy, chunking, caching, block size, guard, drafts, gates."""
    whole_prompts, is_ahead, is_gated = seed % 6 == 5, FIRST_AHEAD <= seed < FIRST_GATED, seed >= FIRST_GATED
    return replace(
        SMALL_POOL,
        enable_chunked_prefill=not whole_prompts,
        max_model_len=64 if whole_prompts else SMALL_POOL.max_model_len,
        max_num_batched_tokens=64 if whole_prompts else SMALL_POOL.max_num_batched_tokens,
        admission_guard=seed % 6 == 4,
        policy="priority" if is_ahead or (seed % 2 and not is_gated) else "fcfs",
        enable_prefix_caching=seed % 3 != 2,
        long_prefill_token_threshold=(12, 0, 5)[seed % 3],
        block_size=4 if seed % 4 else 3,
        async_scheduling=is_ahead,
        speculative_config=SpeculativeConfig(num_speculative_tokens=3) if is_ahead else None,
        max_loras=1 if is_gated else None,
    )


def workload_for(seed: int, num_requests: int) -> list[TimedRequest]:
    """Return a small workload that covers full cache hits and, for seeds from `FIRST_GATED` on, adapters.

    For every fourth seed, every second prompt is a copy of the previous prompt, truncated to whole blocks, because the
    prefix cache never contains the whole of a random prompt. For seeds from `FIRST_GATED` on, three out of four
    requests have an adapter.
    """
    requests, size = make_workload(seed, num_requests), settings_for(seed).block_size
    if seed >= FIRST_GATED:
        requests = [replace(one, adapter_id=ADAPTERS[place % len(ADAPTERS)]) for place, one in enumerate(requests)]
    if seed % 4 == 3:
        for place in range(1, len(requests), 2):
            before = requests[place - 1].prompt_token_ids
            if whole := len(before) // size * size:
                requests[place] = replace(requests[place], prompt_token_ids=before[:whole])
    return requests


def first_divergence(
    arrivals: Sequence[TimedRequest], config: EngineConfig, mine: Lineup, reference: Lineup
) -> Divergence | None:
    """Run both lineups step by step and return the first difference, or None if they agree to the end.

    Raises the reference's error if the workload cannot be served, and `NotImplementedError` if a phase has not been
    written.
    """
    theirs, ours = Run(arrivals, config, reference), None
    mine_steps: list[StepRecord] = []
    reference_steps: list[StepRecord] = []
    while not theirs.finished:
        reference_steps.append(theirs.step())
        number = len(mine_steps)
        try:
            ours = ours or Run(arrivals, config, mine)  # inside `try`, because a learner's `__init__` may also raise
            mine_steps.append(ours.step())
        except NotImplementedError:
            raise
        except Exception as error:
            return Divergence(number, "", mine_steps, reference_steps, error)
        for field in COMPARED:
            if mine_steps[-1][field] != reference_steps[-1][field]:  # type: ignore[literal-required]
                return Divergence(number, field, mine_steps, reference_steps)
    return None


def find_culprit(arrivals: Sequence[TimedRequest], config: EngineConfig, mine: Lineup, reference: Lineup) -> list[int]:
    """Replace one phase of `mine` at a time with the reference's, and return the phases whose replacement removes the
    difference."""
    return [
        phase
        for phase in range(1, len(ALL_NAMES) + 1)
        if mine[phase] == "starter"
        and first_divergence(arrivals, config, mine.with_phase(phase, "solution"), reference) is None
    ]


def search(seeds: Iterable[int], num_requests: int, mine: Lineup, reference: Lineup) -> tuple[int, Divergence] | None:
    """Return the first seed whose workload reveals a difference, together with that difference."""
    for seed in seeds:
        divergence = first_divergence(workload_for(seed, num_requests), settings_for(seed), mine, reference)
        if divergence is not None:
            return seed, divergence
    return None
