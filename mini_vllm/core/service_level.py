"""The latency limits of a class of requests."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """A class of requests and its limits in seconds: to the first token, per later token, and to the end.

    `tpot` is the mean time per output token after the first one; `e2e` is measured from arrival, like `ttft`. `inf`
    means no limit. Raises `ValueError` for a limit that is not above 0.
    """

    name: str = "normal"
    ttft: float = math.inf
    tpot: float = math.inf
    e2e: float = math.inf

    def __post_init__(self) -> None:
        for limit in ("ttft", "tpot", "e2e"):
            if not getattr(self, limit) > 0:
                raise ValueError(
                    f"{limit} of service level {self.name!r} must be more than 0 seconds, got {getattr(self, limit)}"
                )


BEST_EFFORT = ServiceLevel()
