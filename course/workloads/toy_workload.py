"""A seeded toy workload: prompts that share beginnings, and arrivals spread over the first steps."""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm.config import EngineConfig
from mini_vllm.engine.trace_recorder import StepRecord
from mini_vllm.sampling_params import SamplingParams
from mini_vllm.seams.build import build_engine
from mini_vllm.seams.lineup import Lineup

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


class Run:
    """A workload on the fake model, step by step.

    Raises `ValueError` if the config cannot serve it, `StalledError` if nothing moves any more.
    """

    def __init__(self, arrivals: Sequence[Arrival], config: EngineConfig, lineup: Lineup) -> None:
        self.engine = build_engine(config, lineup, record=True)
        self._coming = deque(arrivals)
        self._number = 0

    @property
    def finished(self) -> bool:
        """Whether everybody has come and gone."""
        return not self._coming and not self.engine.has_unfinished_requests()

    def step(self) -> StepRecord:
        """Add who arrives now, take one step, return its record."""
        while self._coming and self._coming[0].step <= self._number:
            new = self._coming.popleft()
            params = SamplingParams(max_tokens=new.max_tokens, ignore_eos=True)
            self.engine.add_request(new.request_id, new.prompt_token_ids, params, priority=new.priority)
        self.engine.step()
        self._number += 1
        assert self.engine.recorder is not None
        return self.engine.recorder.steps[-1]


def run_workload(arrivals: Sequence[Arrival], config: EngineConfig, lineup: Lineup) -> list[StepRecord]:
    """Run a workload on the fake model and return its trace. Raises like `Run`."""
    run = Run(arrivals, config, lineup)
    records = []
    while not run.finished:
        records.append(run.step())
    return records
