"""A seeded toy workload: prompts that share beginnings, and arrivals spread over the first steps."""

import random
from dataclasses import dataclass

from mini_vllm.config import EngineConfig
from mini_vllm.lineup import Lineup
from mini_vllm.sampling_params import SamplingParams
from mini_vllm.trace import StepRecord

SMALL_POOL = EngineConfig(
    max_num_seqs=4,
    max_num_batched_tokens=24,
    long_prefill_token_threshold=12,
    max_model_len=128,
    block_size=4,
    num_gpu_blocks=21,
    check_invariants=True,
)


@dataclass(frozen=True)
class Arrival:
    """One request of a workload: when it comes, its prompt, and how much it may say."""

    step: int
    request_id: str
    prompt_token_ids: list[int]
    max_tokens: int
    priority: int


def make_workload(seed: int, num_requests: int) -> list[Arrival]:
    """Return `num_requests` arrivals in order; about half of the prompts begin with the same 16 tokens."""
    rng = random.Random(seed)
    shared = [rng.randrange(256) for _ in range(16)]
    step, arrivals = 0, []
    for index in range(num_requests):
        own = [rng.randrange(256) for _ in range(rng.randrange(2, 24))]
        prompt = shared + own if rng.random() < 0.5 else own
        arrivals.append(Arrival(step, f"r{index}", prompt, rng.randrange(4, 16), rng.randrange(3)))
        step += rng.choice([0, 0, 1, 2])
    return arrivals


def run_workload(arrivals: list[Arrival], config: EngineConfig, lineup: Lineup) -> list[StepRecord]:
    """Run a workload on the toy model and return its trace.

    Raises `ValueError` if the config cannot serve it, `StalledError` if nothing moves any more.
    """
    from mini_vllm.assembly import build_engine

    engine = build_engine(config, lineup, record=True)
    assert engine.recorder is not None
    coming = list(arrivals)
    number = 0
    while coming or engine.has_unfinished_requests():
        while coming and coming[0].step <= number:
            new = coming.pop(0)
            params = SamplingParams(max_tokens=new.max_tokens, ignore_eos=True)
            engine.add_request(new.request_id, new.prompt_token_ids, params, priority=new.priority)
        engine.step()
        number += 1
    return engine.recorder.steps
