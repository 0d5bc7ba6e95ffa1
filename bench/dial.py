"""Response time of the chunking dial: from a changed setting to the result of a simulation."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from course.views.chunking_dial import chunking_dial

NUM_REQUESTS = 2_000
BUDGETS = (256, 512, 1024, 2048, 4096, 8192)
THRESHOLDS = (0, 256, 1024)
WORKLOADS = ("mixed", "documents", "burst", "chat")


@dataclass(frozen=True)
class ResponseTimes:
    """Milliseconds from a change to its result, in Python, for each budget and threshold of a workload."""

    workload: str
    times: list[float]

    @property
    def median(self) -> float:
        return median(self.times)

    @property
    def worst(self) -> float:
        return max(self.times)


def measure_dial(num_requests: int = NUM_REQUESTS) -> Iterator[ResponseTimes]:
    """Set all budgets and thresholds in turn. The requests are drawn before the clock starts."""
    dial = chunking_dial(num_requests=num_requests)
    for workload in WORKLOADS:
        dial.set(workload=workload)
        times = []
        for budget in BUDGETS:
            for threshold in THRESHOLDS:
                start = time.perf_counter()
                dial.set(max_num_batched_tokens=budget, long_prefill_token_threshold=threshold)
                times.append(1e3 * (time.perf_counter() - start))
        yield ResponseTimes(workload, times)
