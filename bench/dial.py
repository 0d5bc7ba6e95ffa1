"""Response time of the chunking dial: from a dragged budget to the painted result of a simulation."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.drag import BEST, NUM_MOVES, Dragged, Dragging, measure_drag
from course.views.chunking_dial import chunking_dial
from course.views.panels import Panel

NUM_REQUESTS = 2_000
WORKLOADS = ("mixed", "documents", "burst", "chat")


def measure_dial(browser: Any, num_requests: int = NUM_REQUESTS, num_moves: int = NUM_MOVES) -> Iterator[Dragged]:
    """Drag the token budget with each workload. The requests are drawn before the clock starts."""
    for workload in WORKLOADS:
        dragging = Dragging(workload, BEST, "max_num_batched_tokens", partial(dial, workload, num_requests))
        yield measure_drag(browser, dragging, num_moves)


def dial(workload: str, num_requests: int) -> Panel:
    """Return the dial at a workload."""
    made = chunking_dial(num_requests=num_requests)
    made.set(workload=workload)
    return made
