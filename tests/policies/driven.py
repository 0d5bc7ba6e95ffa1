"""The real scheduler under a policy, step by step on a virtual clock, with every invariant checked."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from mini_vllm import EngineConfig, SamplingParams, parse_lineup
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.core.invariants import check_drained, check_state, check_step
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.service_level import BEST_EFFORT, ServiceLevel
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy

MAX_MODEL_LEN = 60
LEVELS = (ServiceLevel("urgent", ttft=0.1, tpot=0.05), ServiceLevel("later", e2e=5.0), BEST_EFFORT)
AMPLE: dict[str, Any] = {
    "max_model_len": 400, "num_gpu_blocks": 1001, "block_size": 4, "max_num_batched_tokens": 64, "max_num_seqs": 4,
    "enable_prefix_caching": False,
}  # fmt: skip


def asked(name: str, num_prompt: int = 4, num_output: int = 4, at: float = 0.0, **fields: Any) -> Request:
    """Return a request that arrives at time `at`, in seconds, with a unique prompt."""
    prompt = [ord(letter) for letter in name] + [1] * num_prompt
    return Request(name, prompt[-num_prompt:], SamplingParams(max_tokens=num_output), arrival_time=at, **fields)


def tight(rng: random.Random) -> EngineConfig:
    """Return settings under which blocks, running slots or budget are scarce."""
    block_size = rng.choice((2, 4, 8))
    return EngineConfig(
        max_model_len=MAX_MODEL_LEN,
        block_size=block_size,
        num_gpu_blocks=1 + MAX_MODEL_LEN // block_size + rng.randint(1, 8),
        max_num_batched_tokens=rng.choice((4, 10, 16, 64)),
        max_num_seqs=rng.choice((1, 2, 4, 6)),
        long_prefill_token_threshold=rng.choice((0, 0, 5)),
        enable_prefix_caching=rng.random() < 0.5,
    )


def mixed(rng: random.Random, count: int, most_seconds: float) -> list[Request]:
    """Return requests of several tenants and levels, in order of arrival."""
    times = sorted(rng.uniform(0, most_seconds) for _ in range(count))
    return [
        asked(f"r{number}", rng.randint(1, 30), rng.randint(1, 25), at, tenant=rng.choice("abc"),
              priority=rng.randint(0, 2), service_level=rng.choice(LEVELS))
        for number, at in enumerate(times)
    ]  # fmt: skip


class Driven:
    """A run in which every request has finished.

    `plans` contains each step's tokens, keyed by request, and `running` contains the ids of the requests that were
    running before the step.
    """

    def __init__(
        self,
        policy: SchedulingPolicy,
        requests: Sequence[Request],
        config: EngineConfig | None = None,
        seconds: float = 0.01,
        before_step: Callable[["Driven"], object] = lambda driven: None,
        **settings: Any,
    ) -> None:
        self.now = 0.0
        self.requests = {request.request_id: request for request in requests}
        self.plans: list[dict[str, int]] = []
        self.running: list[list[str]] = []
        self.preempted: list[str] = []
        self.first_token_times: dict[str, float] = {}
        self.finished_times: dict[str, float] = {}
        chosen = config or EngineConfig(**(AMPLE | settings))
        self.scheduler = build_scheduler(chosen, parse_lineup("solution:1-5"), policy=policy, clock=lambda: self.now)
        pending = list(requests)
        while pending or self.scheduler.has_unfinished_requests():
            while pending and pending[0].arrival_time <= self.now:
                self.scheduler.add_request(pending.pop(0))
            before_step(self)
            if self.scheduler.has_unfinished_requests():
                self._step()
            self.now += seconds
            assert len(self.plans) < 4000, f"{list(self.scheduler.requests)} never finish"
        check_drained(self.scheduler)

    def abort(self, request_id: str) -> None:
        self.scheduler.finish_request(request_id, RequestStatus.FINISHED_ABORTED)

    def _step(self) -> None:
        scheduler = self.scheduler
        self.running.append([request.request_id for request in scheduler.running])
        step: SchedulerOutput = scheduler.schedule()
        check_step(scheduler, step)
        self.plans.append(dict(step.num_scheduled_tokens))
        self.preempted += [entry.victim_id for entry in step.preempted]
        assert step.num_scheduled_tokens or step.preempted, f"a step without work: {list(scheduler.requests)} are left"
        samples = {row.request.request_id: [7] for row in scheduler.start_step(step) if row.needs_token}
        for name in samples:
            self.first_token_times.setdefault(name, self.now)
        scheduler.update_from_output(step, samples)
        self.finished_times |= dict.fromkeys(scheduler.finished_req_ids & samples.keys(), self.now)
        check_state(scheduler, "priority")
