"""Marks one in five requests, chosen at random with a seed, as urgent."""

import random
from collections.abc import Iterable
from dataclasses import replace

from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

URGENT, NORMAL = 0, 1  # vLLM serves the lowest priority value first
URGENT_SHARE = 0.2


def priority_of(draw: float) -> int:
    """Return the priority for a number drawn uniformly from 0 to 1."""
    return URGENT if draw < URGENT_SHARE else NORMAL


def with_urgent(requests: Iterable[TimedRequest], seed: int = 0) -> list[TimedRequest]:
    """Return the same requests, with one in five marked urgent; policies without priorities ignore this."""
    rng = random.Random(seed)
    return [replace(request, priority=priority_of(rng.random())) for request in requests]
