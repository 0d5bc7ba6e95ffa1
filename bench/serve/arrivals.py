"""When requests go out: a Poisson process, bursts, or all at once. (vLLM: `benchmarks/serve.py`, `get_request`.)"""

import math
import random
from itertools import accumulate


def arrival_times(count: int, rate: float, burstiness: float = 1.0, seed: int = 0) -> list[float]:
    """Return `count` times in seconds, in order, `rate` per second.

    The gaps are drawn from a gamma distribution with shape `burstiness`: 1 is a Poisson process, less comes in
    bursts, more is steadier. The times are scaled so that the last of them is at `count / rate`, whatever the seed;
    at a rate of infinity all are 0. Raises `ValueError` for a count below 1 or a rate or burstiness not over 0.
    """
    if count < 1:
        raise ValueError(f"the number of requests must be at least 1, got {count}")
    if not rate > 0:
        raise ValueError(f"request_rate must be over 0 requests per second, or inf, got {rate}")
    if not 0 < burstiness < math.inf:
        raise ValueError(f"burstiness must be a finite number over 0, got {burstiness}")
    if rate == math.inf:
        return [0.0] * count
    rng = random.Random(f"arrivals {seed}")
    times = list(accumulate(rng.gammavariate(burstiness, 1.0) for _ in range(count)))
    return [time * count / (rate * times[-1]) for time in times]
