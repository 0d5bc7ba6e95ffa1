"""Situations and checks that several tasks of phase 3 use."""

from course.labtest.support import (
    make_request,
)
from mini_vllm.core.request import Request

SEEDS = (1, 2, 3, 4, 5)


NUM_STATES = 60


def waiter(name: str, priority: int = 0, arrival_time: float = 0.0) -> Request:
    return make_request(name, 4, priority=priority, arrival_time=arrival_time)


def runner(name: str, num_computed: int = 8, priority: int = 0, arrival_time: float = 0.0) -> Request:
    """Return a running request that is one token behind."""
    return make_request(
        name, num_computed + 1, num_computed_tokens=num_computed, priority=priority, arrival_time=arrival_time
    )
