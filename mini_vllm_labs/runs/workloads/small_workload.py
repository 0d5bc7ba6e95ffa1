"""A small seeded workload for the fake model: prompts that share prefixes, arrivals spread over the first steps."""

import random
import time
from collections import deque
from collections.abc import Sequence

from mini_vllm import EngineConfig, Lineup, SamplingParams
from mini_vllm.assembly.build import build_engine
from mini_vllm.core.step_record import StepRecord
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

SMALL_POOL = EngineConfig(
    max_num_seqs=4,
    max_num_batched_tokens=24,
    long_prefill_token_threshold=12,
    max_model_len=128,
    block_size=4,
    num_gpu_blocks=21,  # four requests need up to 56 blocks, so some are preempted
    check_invariants=True,
)


def make_workload(seed: int, num_requests: int) -> list[TimedRequest]:
    """Return requests in order of arrival; about half of the prompts begin with the same 16 tokens."""
    rng = random.Random(seed)
    shared = [rng.randrange(256) for _ in range(16)]
    step, requests = 0, []
    for index in range(num_requests):
        own = [rng.randrange(256) for _ in range(rng.randrange(2, 24))]
        prompt = shared + own if rng.random() < 0.5 else own
        requests.append(TimedRequest(step, f"r{index}", prompt, rng.randrange(4, 16), rng.randrange(3)))
        step += rng.choice([0, 0, 1, 2])
    return requests


def policy_of(name: str | None, requests: Sequence[TimedRequest]) -> SchedulingPolicy | None:
    """Build the policy called `name` in `mini_vllm_labs.policies` for these requests, or return None if `name` is None.

    Raises a `ValueError` that lists the names if there is no such policy.
    """
    if name is None:
        return None
    from mini_vllm_labs.policies.named import find_policy  # imported here, because few runs need these 14 modules

    return find_policy(name).make({request.request_id: request.max_tokens for request in requests})


class Run:
    """Runs a workload on the fake model step by step. `arrival_time` is a step number.

    The clock of a `scheduling_policy` shows the step number, in seconds. Raises `ValueError` if the config cannot serve
    the workload, and `StalledError` if no more requests can be scheduled.
    """

    def __init__(
        self,
        requests: Sequence[TimedRequest],
        config: EngineConfig,
        lineup: Lineup,
        scheduling_policy: SchedulingPolicy | None = None,
    ) -> None:
        self._not_arrived = deque(requests)
        self._number = 0
        clock = time.monotonic if scheduling_policy is None else lambda: float(self._number)
        self.engine = build_engine(config, lineup, record=True, scheduling_policy=scheduling_policy, clock=clock)

    @property
    def finished(self) -> bool:
        return not self._not_arrived and not self.engine.has_unfinished_requests()

    def step(self) -> StepRecord:
        """Add this step's arrivals, run one step, and return its record."""
        while self._not_arrived and self._not_arrived[0].arrival_time <= self._number:
            new = self._not_arrived.popleft()
            params = SamplingParams(max_tokens=new.max_tokens, ignore_eos=True)
            self.engine.add_request(
                new.request_id, list(new.prompt_token_ids), params, priority=new.priority, adapter_id=new.adapter_id
            )
        self.engine.step()
        self._number += 1
        return self.engine.recorder.steps[-1]


def run_workload(requests: Sequence[TimedRequest], config: EngineConfig, lineup: Lineup) -> list[StepRecord]:
    """Run a workload on the fake model and return its trace. Raises the same errors as `Run`."""
    run = Run(requests, config, lineup)
    records = []
    while not run.finished:
        records.append(run.step())
    return records
