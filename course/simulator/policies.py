"""Scheduling policies: the engine's FCFS and PRIORITY, and shortest-first built on PRIORITY."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from course.workloads.timed_request import TimedRequest
from mini_vllm.config import EngineConfig

PolicyName = Literal["fcfs", "priority", "shortest-first"]

POLICIES: dict[PolicyName, str] = {
    "fcfs": "first come, first served",
    "priority": "one request in five is urgent and goes before the others",
    "shortest-first": "the engine's PRIORITY, with the predicted length of the output as priority",
}
URGENT_SHARE = 0.2
URGENT, NORMAL = 0, 1  # vLLM takes the lowest number first
PREDICTION_SIGMA = 0.3


def under_policy(
    name: str,
    requests: Sequence[TimedRequest],
    config: EngineConfig,
    *,
    prediction_sigma: float = PREDICTION_SIGMA,
    seed: int = 0,
) -> tuple[list[TimedRequest], EngineConfig]:
    """Return the same requests with the priorities of a policy, and the config that applies them.

    An engine cannot know the length of an output. The predicted length is the true one times a lognormal error:
    two of three predictions are within a factor of exp(`prediction_sigma`), and 0 is perfect prediction.
    Raises `ValueError` for an unknown policy.
    """
    rng = random.Random(seed)
    match name:
        case "fcfs":
            return [replace(request, priority=0) for request in requests], replace(config, policy="fcfs")
        case "priority":
            priorities = [URGENT if rng.random() < URGENT_SHARE else NORMAL for _ in requests]
        case "shortest-first":
            priorities = [round(r.num_output_tokens * rng.lognormvariate(0, prediction_sigma)) for r in requests]
        case _:
            raise ValueError(f"policy must be one of {', '.join(POLICIES)}, got {name!r}")
    pairs = zip(requests, priorities, strict=True)
    return [replace(request, priority=priority) for request, priority in pairs], replace(config, policy="priority")
