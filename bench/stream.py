"""The arrivals of a round, in real time."""

import time
from collections.abc import Sequence

from course.workloads.timed_request import TimedRequest


class Arrivals:
    """Yields the requests of a round as they arrive; the clock starts at construction."""

    def __init__(self, requests: Sequence[TimedRequest]) -> None:
        self.requests = requests
        self.next = 0
        self.start = time.perf_counter()

    @property
    def now(self) -> float:
        """Seconds since the round began."""
        return time.perf_counter() - self.start

    @property
    def all_in(self) -> bool:
        return self.next == len(self.requests)

    def take(self, most: int | None = None) -> list[int]:
        """Return the indices of newly arrived requests."""
        first, now = self.next, self.now
        while not self.all_in and self.requests[self.next].arrival_time <= now and self.next - first != most:
            self.next += 1
        return list(range(first, self.next))

    def wait(self) -> None:
        """Sleep until the next request arrives."""
        time.sleep(max(0.0, self.requests[self.next].arrival_time - self.now))
