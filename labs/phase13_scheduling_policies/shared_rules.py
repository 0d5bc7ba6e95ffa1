"""Checks the rules that apply to every policy: no step is wasted, and no text changes."""

import random
from collections.abc import Callable

from labs.phase13_scheduling_policies.runs import Run, scheduler_lineup
from mini_vllm import EngineConfig, SamplingParams
from mini_vllm.assembly.build import build_engine
from mini_vllm.core.service_level import ServiceLevel
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm_labs.grading.labtest.expect import expect_equal, lab_failure

SMALL = EngineConfig(max_num_seqs=3, max_num_batched_tokens=16, block_size=4, num_gpu_blocks=24, max_model_len=60)
LEVELS = (ServiceLevel("urgent", ttft=0.1), ServiceLevel("steady", tpot=0.05), ServiceLevel())


def check_no_idle_step(run: Run, what: str) -> None:
    """Fail if a step left budget and a slot unused although a request could have used them (memory was sufficient)."""
    if run.idle_steps:
        lab_failure(
            rule="A policy decides which request comes first, not whether the engine works: no step leaves a seat and "
            "budget unused while a request waits.",
            situation=what,
            expected="no such step",
            yours=f"{len(run.idle_steps)} of them, the first is {run.idle_steps[0]}",
            hint="which of your methods keeps a request from its turn here, and may another go in its place?",
        )


def check_same_tokens(make: Callable[[], SchedulingPolicy]) -> None:
    """Fail unless an engine with few blocks generates the same texts as under first come, first served."""
    told = ["12 requests of 3 tenants in an engine with 23 blocks of 4"]
    hint = "which requests do your methods get, which do they return, and is one lost or there twice?"
    expect_equal(generated(make()), generated(None), rule="A policy changes no text.", situation=told, hint=hint)


def generated(policy: SchedulingPolicy | None) -> dict[str, str]:
    """Return the texts that the fake model generates, keyed by request."""
    engine = build_engine(SMALL, scheduler_lineup(), scheduling_policy=policy)
    rng = random.Random(3)
    for number in range(12):
        name = f"r{number}"
        engine.add_request(name, "x" * rng.randint(1, 30) + name, SamplingParams(max_tokens=rng.randint(1, 20)))
        request = engine.scheduler.requests[name]
        request.tenant, request.service_level = "abc"[number % 3], LEVELS[number // 2 % 3]
    texts: dict[str, str] = {}
    for _ in range(1000):
        texts |= {output.request_id: output.outputs[0].text for output in engine.step()}
        if not engine.has_unfinished_requests():
            break
    return texts
