"""The cost of 100,000 waiting requests for the running ones, in a pool of a million blocks."""

import gc
from dataclasses import dataclass

from bench.scheduler import BLOCK_SIZE, NUM_ROUNDS, Cost, clock, freeze, take_step, time_round
from mini_vllm.assembly.build import build_scheduler
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig, Policy
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.sampling_params import SamplingParams

NUM_QUEUED = 100_000
NUM_BLOCKS = 1_000_000
NUM_RUNNING = 64
NUM_STEPS = 4 * BLOCK_SIZE


@dataclass(frozen=True)
class LongQueue:
    """The cost per running request and step with an empty and with a long queue, and of joining the long one."""

    empty: Cost
    long: Cost
    joining: Cost

    @property
    def ratio(self) -> float:
        """Long over empty; 1 means that the length of the queue does not matter."""
        return self.long.median / self.empty.median


def measure_long_queue(lineup: Lineup, policy: Policy = "fcfs") -> LongQueue:
    """Measure decodes of 64 running requests, in alternating rounds with an empty and a long queue."""
    empty, full = (_running_scheduler(lineup, policy) for _ in range(2))
    queued = [
        Request(f"q{index}", [index % 1000, index // 1000], SamplingParams(max_tokens=4), priority=1 + index % 7)
        for index in range(NUM_QUEUED)
    ]
    freeze()
    start = clock()
    for request in queued:
        full.add_request(request)
    joining = clock() - start
    rounds = [[time_round(scheduler, NUM_STEPS) for scheduler in (empty, full)] for _ in range(NUM_ROUNDS)]
    if len(full.waiting) != NUM_QUEUED:
        raise RuntimeError(f"{len(full.waiting)} of {NUM_QUEUED} requests still wait: some were admitted")
    gc.unfreeze()
    with_empty_queue, with_long_queue = zip(*rounds, strict=True)
    num_decodes = NUM_RUNNING * NUM_STEPS
    return LongQueue(
        Cost.of(list(with_empty_queue), num_decodes),
        Cost.of(list(with_long_queue), num_decodes),
        Cost.of([joining], NUM_QUEUED),
    )


def _running_scheduler(lineup: Lineup, policy: Policy) -> Scheduler:
    num_output_tokens = NUM_STEPS * NUM_ROUNDS + 8
    config = EngineConfig(
        max_num_seqs=NUM_RUNNING,
        max_num_batched_tokens=8192,
        max_model_len=8192,
        num_gpu_blocks=NUM_BLOCKS,
        block_size=BLOCK_SIZE,
        policy=policy,
    )
    scheduler = build_scheduler(config, lineup)
    for index in range(NUM_RUNNING):
        params = SamplingParams(max_tokens=num_output_tokens, ignore_eos=True)
        scheduler.add_request(Request(f"r{index}", list(range(index, index + 32)), params))
    while len(scheduler.waiting):
        take_step(scheduler)
    return scheduler
