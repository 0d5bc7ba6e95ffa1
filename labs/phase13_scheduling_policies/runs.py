"""Run the real scheduler under a policy in simulated time, for this lab's tests."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import pytest

from mini_vllm import EngineConfig
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import Lineup, parse_lineup
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.core.request import Request
from mini_vllm.core.service_level import BEST_EFFORT, ServiceLevel
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.grading.labtest.expect import lab_failure
from mini_vllm_labs.runs.starter_status import written_phases
from mini_vllm_labs.runs.workloads.simulated_time import VirtualClock
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.cost_model import CostModel
from mini_vllm_labs.simulation.service_differences import ServiceDifferences
from mini_vllm_labs.simulation.simulation import Simulation

STEP_SECONDS = 0.01
COST = CostModel(0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, seconds_per_step=STEP_SECONDS)
INPUT_WEIGHT, OUTPUT_WEIGHT = 1.0, 2.0
MAX_STEPS = 2_500
CONFIG = EngineConfig(
    max_num_seqs=2, max_num_batched_tokens=16, block_size=4, num_gpu_blocks=200, max_model_len=200,
    enable_prefix_caching=False,
)  # fmt: skip
ONE_SEAT = replace(CONFIG, max_num_seqs=1, max_num_batched_tokens=64)


def scheduler_lineup() -> Lineup:
    """Return the phases that run under the policy: the reference's if available, otherwise yours; fail if neither
    exists."""
    if solutions_exist():
        return parse_lineup("solution:1-5")
    if missing := sorted({1, 2, 3, 4, 5} - set(written_phases())):
        pytest.fail(f"Policies run on your phases 1 to 5, and phase {missing[0]} is not fully written.", pytrace=False)
    return parse_lineup("starter:1-5")


def asked(
    name: str, num_prompt: int, num_output: int, at: float = 0.0, tenant: str = "", level: ServiceLevel = BEST_EFFORT
) -> TimedRequest:
    """Return a request that arrives at time `at`, in seconds."""
    return TimedRequest(at, name, [1] * num_prompt, num_output, tenant=tenant, service_level=level)


class Run:
    """A complete run. `order` lists the request names in the order in which their first tokens were computed.

    `service` is keyed by tenant and counts weighted tokens divided by the tenant's weight. Fails the test if a step
    schedules nothing, or if the run never ends.
    """

    def __init__(
        self,
        policy: SchedulingPolicy,
        requests: Sequence[TimedRequest],
        config: EngineConfig = CONFIG,
        tenant_weights: Mapping[str, float] | None = None,
    ) -> None:
        self.requests = sorted(requests, key=lambda request: request.arrival_time)
        self.order: list[str] = []
        self.preempted: list[str] = []
        self.idle_steps: list[str] = []
        self.service: defaultdict[str, float] = defaultdict(float)
        self._tenant_weights = tenant_weights or {}
        self._differences = ServiceDifferences()
        self._num_steps = 0
        clock = VirtualClock()
        self._scheduler = build_scheduler(config, scheduler_lineup(), policy=policy, clock=lambda: clock.now)
        simulation = Simulation(self.requests, self._scheduler, COST, clock=clock, on_step=self._on_step)
        try:
            self.served = simulation.run()
        except StalledError as error:
            self._fail("While a request is unfinished, every step computes something.", str(error))

    @property
    def differences(self) -> dict[tuple[str, str], float]:
        """The largest difference in service between each pair of tenants while both were waiting."""
        return self._differences.largest

    def late(self) -> dict[str, str]:
        """Return the requests that broke a promise, each with the promised and the actual time."""
        served, found = self.served, {}
        times = (served.times_to_first_token, served.mean_inter_token_latencies, served.e2e_latencies)
        for request, *took in zip(self.requests, *times, strict=True):
            for name, seconds in zip(("ttft", "tpot", "e2e"), took, strict=True):
                if seconds > (limit := getattr(request.service_level, name)) + 1e-9:
                    found[request.request_id] = f"{name} {seconds:.3f} s, promised {limit:.3f} s"
        return found

    def _on_step(self, step: SchedulerOutput, sampling: dict[str, Request]) -> None:
        scheduler, planned = self._scheduler, step.num_scheduled_tokens
        self._num_steps += 1
        if self._num_steps > MAX_STEPS:
            self._fail("Every run comes to an end.", f"{MAX_STEPS} steps, and {len(scheduler.requests)} still there")
        self.preempted += [self.requests[int(entry.victim_id)].request_id for entry in step.preempted]
        for number, num_tokens in planned.items():
            request, name = scheduler.requests[number], self.requests[int(number)].request_id
            if name not in self.order:
                self.order.append(name)
            begin = request.num_computed_tokens - num_tokens
            num_prompt = max(0, min(num_tokens, request.num_prompt_tokens - begin))
            service = INPUT_WEIGHT * num_prompt + OUTPUT_WEIGHT * (number in sampling)
            self.service[request.tenant] += service / self._tenant_weights.get(request.tenant, 1.0)
        if step.token_budget > 0:
            left_out = [r.request_id for r in scheduler.running if r.request_id not in planned]
            if left_out or (scheduler.waiting and len(scheduler.running) < scheduler.max_num_seqs):
                seats = scheduler.max_num_seqs - len(scheduler.running)
                self.idle_steps.append(
                    f"step {self._num_steps}: {step.token_budget} tokens of the budget and {seats} seats unused, "
                    f"{len(scheduler.waiting)} requests waiting, {len(left_out)} running requests left out"
                )
        self._differences.enter(self.service, {request.tenant for request in scheduler.waiting})

    def _fail(self, rule: str, yours: str) -> NoReturn:
        lab_failure(
            rule=rule,
            situation=f"{len(self.requests)} requests, {len(self.order)} of them begun, {self._num_steps} steps",
            expected="all requests finished",
            yours=yours,
            hint="does any of your methods lose a request, hold one back for ever, or preempt one again and again?",
        )
