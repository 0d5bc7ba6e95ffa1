"""Random scenarios for a whole engine, drawn from a secret seed, and filters that check the reference's trace.

A filter ensures that the event in a group's title happens in each of its scenarios.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

from mini_vllm.config import EngineConfig, Policy
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.step_record import StepRecord
from mini_vllm.runner.fake_model_runner import LETTERS
from mini_vllm_labs.classroom.worker.scenario import EngineScenario, ScenarioRequest

REFERENCE = "solution:1-5"


def preempts(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    return any(step["preempted"] for step in trace)


def waits(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    return sum(bool(step["waiting_after"]) for step in trace) > 2


MAX_PROMPT_TOKENS = 26
MAX_NEW_TOKENS = 14


@dataclass(frozen=True)
class Features:
    policy: Policy = "fcfs"
    is_tight: bool = False
    caching: bool = False
    chunking: bool = True
    has_threshold: bool = False
    guard: bool = False
    tenants: bool = False
    stops: bool = False
    aborts: bool = False


def draw_scenario(rng: Random, on: Features) -> EngineScenario:
    block_size = rng.choice((2, 3, 4, 5, 8))
    max_model_len = rng.randrange(32, 44)
    arrivals = draw_arrivals(rng, on, max_model_len)
    needs = [cdiv(min(len(new.prompt_token_ids) + new.max_tokens, max_model_len) - 1, block_size) for new in arrivals]
    num_usable = max(needs) + rng.randrange(0, 2 + max(needs) // 2) if on.is_tight else sum(needs)
    config = EngineConfig(
        max_num_seqs=rng.choice((3, 4, 5, 8)),
        max_num_batched_tokens=draw_budget(rng, on, max_model_len),
        long_prefill_token_threshold=rng.randrange(2, 13) if on.has_threshold else 0,
        max_model_len=max_model_len,
        enable_chunked_prefill=on.chunking,
        enable_prefix_caching=on.caching,
        policy=on.policy,
        block_size=block_size,
        num_gpu_blocks=num_usable + 1,
        admission_guard=on.guard,
    )
    leaving = [new for new in arrivals if on.aborts and rng.random() < 0.3]
    aborts = tuple((new.arrival_step + rng.randrange(6), new.request_id) for new in leaving)
    return EngineScenario(config, arrivals, aborts)


def draw_budget(rng: Random, on: Features, max_model_len: int) -> int:
    if not on.chunking:
        return max_model_len + rng.randrange(12)  # otherwise, a long prompt would wait forever
    return rng.randrange(6, 34)


def draw_arrivals(rng: Random, on: Features, max_model_len: int) -> tuple[ScenarioRequest, ...]:
    """Draw the requests; with caching, about 70% of them share a prefix."""
    beginnings = [[rng.randrange(256) for _ in range(rng.randrange(6, 18))] for _ in range(2)]
    step, arrivals, names = 0, list[ScenarioRequest](), name_maker(rng)
    for _ in range(rng.randrange(5, 9)):
        own = [rng.randrange(256) for _ in range(rng.randrange(1, MAX_PROMPT_TOKENS - 17))]
        shares = on.caching and rng.random() < 0.7
        prompt = rng.choice(beginnings) + own * rng.choice((0, 1, 1)) if shares else own * rng.choice((1, 1, 2, 3))
        arrivals.append(
            ScenarioRequest(
                step,
                next(names),
                (prompt or own)[: max_model_len - 2],
                rng.randrange(1, MAX_NEW_TOKENS + 1),
                priority=rng.randrange(3) if on.policy == "priority" else 0,
                cache_salt=rng.choice((None, "one", "two")) if on.tenants else None,
                adapter_id=rng.choice((None, None, "adapter")) if on.tenants else None,
                stop_token_ids=tuple(rng.sample(LETTERS, 4)) if on.stops and rng.random() < 0.5 else (),
            )
        )
        step += rng.choice((0, 0, 1, 2))
    return tuple(arrivals)


def name_maker(rng: Random) -> Iterator[str]:
    """Return request ids whose order does not match the order of arrival."""
    first = rng.randrange(20, 60)
    return (f"r{(first + 37 * number) % 97}" for number in count())
