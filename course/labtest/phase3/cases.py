"""Requests that several tasks of phase 3 use. Nothing here is to be filled in."""

from course.labtest.support import make_request
from mini_vllm.core.request import Request

SEEDS = (1, 2, 3, 4, 5)
NUM_STATES = 60
RANKS: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...] = (
    ((0, 1, 2), (0.0, 1.0, 2.0)),
    ((-10, -9, 9, 10), (0.5, 9.0, 10.0, 1e6)),  # sorted as texts they are in another order
    ((999, 1000, 1001), (1.75e9 + 0.25, 1.75e9 + 0.5, 1.75e9 + 0.75)),  # seconds since 1970, as time.time() counts
    ((0, 1), (5.0, 5.0001, 5.0002)),  # prompts that were sent together
    ((0, 1), (5.0, 5.0 + 2**-30, 5.0 + 2**-21)),  # a billionth of a second apart
    ((0, 1), (1.75e9, 1.75e9 + 2**-22, 1.75e9 + 2**-21)),  # as close as a float of today can tell
    ((-(10**8), 0, 10**8, 10**8 + 1), (1.75e9, 1.75e9 + 1e-4, 1.75e9 + 5)),
)


def waiter(name: str, priority: int = 0, arrival_time: float = 0.0) -> Request:
    return make_request(name, 4, priority=priority, arrival_time=arrival_time)


def runner(name: str, num_computed: int = 8, priority: int = 0, arrival_time: float = 0.0) -> Request:
    """Return a running request with one token left to compute."""
    return make_request(
        name, num_computed + 1, num_computed_tokens=num_computed, priority=priority, arrival_time=arrival_time
    )
