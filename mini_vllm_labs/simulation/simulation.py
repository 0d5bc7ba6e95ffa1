"""Simulates serving with the real scheduler, a cost model instead of a runner, and a virtual clock."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import get_args

from mini_vllm import EngineConfig, Lineup, SamplingParams
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.config import Policy
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.policies.named import find_policy
from mini_vllm_labs.runs.workloads.simulated_time import VirtualClock
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest, require_in_order
from mini_vllm_labs.simulation.cost_model import CostModel, pairs
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.waiting import WaitingTimes

STEPS_PER_REPORT = 200
ENGINES_OWN: dict[str, Policy] = {name: name for name in get_args(Policy)}
# receives the plan and the requests for which it samples
OnStep = Callable[[SchedulerOutput, dict[str, Request]], None]
num_computed_tokens = attrgetter("num_computed_tokens")  # written in C, because every step maps it over its requests


def simulate(
    requests: Sequence[TimedRequest],
    config: EngineConfig,
    cost: CostModel,
    lineup: Lineup,
    on_progress: Callable[[int], None] = lambda num_finished: None,
    *,
    policy: SchedulingPolicy | None = None,
    on_step: OnStep | None = None,
    waits: WaitingTimes | None = None,
) -> Served:
    """Serve the requests in order of `arrival_time` with the lineup's phases 1 to 5.

    `config` must set `max_model_len` and `num_gpu_blocks`. `on_progress` is called every 200 steps with the number of
    finished requests, and `on_step` in every step before its tokens are counted. `policy` replaces the config's policy,
    and `waits` receives the reasons why requests wait. Raises `ValueError` for a request that can never be served, and
    `StalledError` if no more requests can be scheduled.
    """
    clock = VirtualClock()
    scheduler = build_scheduler(config, lineup, policy=policy, clock=lambda: clock.now)
    if waits is not None:
        waits.watch(scheduler, config)
    return Simulation(requests, scheduler, cost, on_progress, clock, on_step, waits).run()


def simulate_under(
    name: str,
    requests: Sequence[TimedRequest],
    config: EngineConfig,
    cost: CostModel,
    lineup: Lineup,
    on_progress: Callable[[int], None] = lambda num_finished: None,
    waits: WaitingTimes | None = None,
) -> Served:
    """Simulate under a policy from `mini_vllm_labs.policies`. Also raises `ValueError` for an unknown name.

    The engine's two built-in policies need no wrapper around phase 1 and use phase 3's queue.
    """
    named = find_policy(name)
    if name in ENGINES_OWN:
        return simulate(requests, replace(config, policy=ENGINES_OWN[name]), cost, lineup, on_progress, waits=waits)
    policy = named.make(output_lengths(requests))
    return simulate(requests, config, cost, lineup, on_progress, policy=policy, waits=waits)


def output_lengths(requests: Sequence[TimedRequest]) -> dict[str, int]:
    """Return the true length of each output in tokens, keyed by the simulator's request id."""
    return {str(number): request.num_output_tokens for number, request in enumerate(requests)}


class Simulation:
    """Simulates one engine. The simulation drives the scheduler directly, because `LLMEngine` would detokenize
    outputs."""

    def __init__(
        self,
        requests: Sequence[TimedRequest],
        scheduler: Scheduler,
        cost: CostModel,
        on_progress: Callable[[int], None] = lambda num_finished: None,
        clock: VirtualClock | None = None,
        on_step: OnStep | None = None,
        waits: WaitingTimes | None = None,
    ) -> None:
        self.requests, self.scheduler, self.cost, self.on_progress = requests, scheduler, cost, on_progress
        self.clock = clock or VirtualClock()
        self.on_step, self.waits = on_step, waits
        self.served = Served(requests, [0.0] * len(requests), [0.0] * len(requests))
        self.num_finished = 0
        self._decoding: dict[str, Request] = {}
        self._last_token_times: dict[str, float] = {}
        self._admitted = set[str]()
        self._num_hit_tokens = self._num_query_tokens = 0

    def run(self) -> Served:
        """Serve all requests. Raises the same errors as `simulate`."""
        self.require_servable()
        for index, request in enumerate(self.requests):
            self.serve_until(request.arrival_time)
            self.add_request(index)
        return self.finish()

    def serve_until(self, time: float) -> None:
        """Run steps until the clock reaches `time` or all requests have finished."""
        while self.clock.now < time and self.scheduler.has_unfinished_requests():
            self._step()
            if self.served.num_steps % STEPS_PER_REPORT == 0:
                self.on_progress(self.num_finished)

    def add_request(self, index: int) -> None:
        """Add an arriving request; if the clock is behind its arrival time, advance the clock to it."""
        self.clock.advance_to(self.requests[index].arrival_time)
        self.scheduler.add_request(self._arrive(index))

    def finish(self) -> Served:
        """Serve all requests that have arrived, and return the result."""
        self.serve_until(math.inf)
        self.on_progress(self.num_finished)
        self.served.hit_rate = self._num_hit_tokens / max(1, self._num_query_tokens)
        return self.served

    def require_servable(self) -> None:
        """Raise `ValueError` for requests that are out of order, or that can never be served."""
        require_in_order(self.requests)
        kv, max_model_len = self.scheduler.kv, self.scheduler.max_model_len
        for request in self.requests:
            num_tokens = request.num_prompt_tokens + request.num_output_tokens
            if num_tokens > max_model_len:
                raise ValueError(
                    f"max_model_len must be at least {num_tokens} for these requests, got {max_model_len}: "
                    "choose a model that can hold them, or scale the lengths down"
                )
            if cdiv(num_tokens - 1, kv.block_size) > kv.num_usable_blocks:
                raise ValueError(
                    f"num_gpu_blocks must be large enough for a request of {num_tokens} tokens, got "
                    f"{kv.num_usable_blocks} usable blocks of {kv.block_size} tokens"
                )

    def _arrive(self, index: int) -> Request:
        timed = self.requests[index]
        return Request(
            str(index),
            list(timed.prompt_token_ids),
            SamplingParams(max_tokens=timed.num_output_tokens, ignore_eos=True),
            priority=timed.priority,
            arrival_time=timed.arrival_time,
            tenant=timed.tenant,
            service_level=timed.service_level,
            adapter_id=timed.adapter_id,
        )

    def _step(self) -> None:
        """Schedule, advance the clock, and append one token to each sampling request."""
        step, start = self._plan(), self.clock.now
        sampling = self._run(step)
        if self.waits is not None:
            self.waits.note(step, self.clock.now - start)
        if self.on_step is not None:
            self.on_step(step, sampling)
        # Any token will do, because tokens do not end outputs here.
        self.scheduler.update_from_output(step, {i: [request.prompt_token_ids[-1]] for i, request in sampling.items()})
        self._note_finished()
        for request_id in self.scheduler.finished_req_ids:
            del sampling[request_id]
        self._decoding = sampling

    def _plan(self) -> SchedulerOutput:
        step = self.scheduler.schedule()
        if not step.num_scheduled_tokens and not step.preempted:
            raise StalledError(f"no more requests can be scheduled: only {self.num_finished} requests were served")
        return step

    def _note_finished(self) -> None:
        for request_id in self.scheduler.finished_req_ids:
            self.served.finished_times[int(request_id)] = self.clock.now
            self.num_finished += 1

    def _run(self, step: SchedulerOutput) -> dict[str, Request]:
        """Advance the clock by the step's cost, record the gaps, and return the requests that sample."""
        planned, alive, served = step.num_scheduled_tokens, self.scheduler.requests, self.served
        served.num_preemptions += len(step.preempted)
        num_context_tokens = sum(map(num_computed_tokens, map(alive.__getitem__, planned)))
        others: list[str] = []
        if planned.keys() == self._decoding.keys():  # true in most steps, and avoids a loop over requests
            sampling, num_tokens, num_pairs = self._decoding, len(planned), num_context_tokens
        else:
            self._add_pauses(planned)
            sampling, others, num_tokens, num_pairs = self._count(planned, num_context_tokens)
        if not planned:
            return sampling
        seconds = self.cost.step_seconds(len(planned), num_tokens, num_context_tokens, num_pairs, len(sampling))
        self.clock.advance(seconds)
        served.num_steps += 1
        served.num_computed_tokens += num_tokens
        served.peak_context_tokens = max(served.peak_context_tokens, num_context_tokens)
        served.most_running = max(served.most_running, len(planned))
        if len(sampling) > len(others):
            served.gaps.append((seconds, len(sampling) - len(others)))
        for request_id in others:
            self._add_token_after_prefill(request_id)
        return sampling

    def _count(self, planned: dict[str, int], num_pairs: int) -> tuple[dict[str, Request], list[str], int, int]:
        """Return the sampling requests, which of them are newly sampling, and the counts of tokens and pairs.

        `num_pairs` is the number of pairs there would be if every request computed one token.
        """
        alive, decoding = self.scheduler.requests, self._decoding
        sampling: dict[str, Request] = {}
        others: list[str] = []
        num_tokens = 0
        for request_id, n in planned.items():
            num_tokens += n
            request = alive[request_id]
            if request_id in decoding:
                sampling[request_id] = request
                continue
            # a resumed request hits blocks that it computed itself, and vLLM counts those separately
            if request_id not in self._admitted:
                self._admitted.add(request_id)
                self._num_hit_tokens += request.num_cached_tokens
                self._num_query_tokens += request.num_prompt_tokens
            end = request.num_computed_tokens
            num_pairs += pairs(end - n, n) - end
            if end == request.num_tokens:
                sampling[request_id] = request
                others.append(request_id)
        return sampling, others, num_tokens, num_pairs

    def _add_pauses(self, planned: dict[str, int]) -> None:
        """Store the time of the last token for each decoding request that is not in this step."""
        for request_id in self._decoding.keys() - planned.keys():
            self._last_token_times[request_id] = self.clock.now

    def _add_token_after_prefill(self, request_id: str) -> None:
        """Record a first token, or the gap before the first token after a pause."""
        now = self.clock.now
        last = self._last_token_times.pop(request_id, None)
        if last is None:
            self.served.first_token_times[int(request_id)] = now
        else:
            self.served.gaps.append((now - last, 1))
