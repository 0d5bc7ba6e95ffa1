"""What the policies are tried on: the simulator's workloads, with tenants and promises."""

import random
from dataclasses import dataclass, replace

from course.simulator.workloads import SyntheticPrompt, make_requests
from course.workloads import urgency
from course.workloads.timed_request import TimedRequest
from mini_vllm.core.service_level import ServiceLevel

URGENT = ServiceLevel("urgent", ttft=0.5, tpot=0.05)
NORMAL = ServiceLevel("normal", ttft=3.0, tpot=0.1)
LATER = ServiceLevel("batch", e2e=60.0)
LONG_PROMPT = 1_000  # tokens: a document, whose answer is not read as it comes


@dataclass(frozen=True, slots=True)
class Load:
    """A workload of the simulator at a rate in requests per second, its requests shared out among tenants.

    The first tenant sends `heavy_share` of the requests, the others the rest in equal parts. One request in five is
    urgent; long prompts belong to the class without a limit on the first token.
    """

    workload: str = "chat"
    num_requests: int = 2_000
    rate: float = 10.0
    num_tenants: int = 3
    heavy_share: float = 0.6

    def __post_init__(self) -> None:
        if self.num_tenants < 1:
            raise ValueError(f"num_tenants must be at least 1, got {self.num_tenants}")
        if not 0 < self.heavy_share <= 1:
            raise ValueError(f"heavy_share must be over 0 and at most 1, got {self.heavy_share}")

    def requests(self, seed: int) -> list[TimedRequest]:
        """Return the requests of a seed in order of arrival."""
        rng = random.Random(f"{seed} tenants")
        tenants = [f"tenant {number + 1}" for number in range(self.num_tenants)]
        light = (1 - self.heavy_share) / max(1, self.num_tenants - 1)
        weights = [self.heavy_share] + [light] * (self.num_tenants - 1)
        plain = make_requests(self.workload, self.num_requests, self.rate, seed)
        return [with_promise(request, rng.choices(tenants, weights)[0], rng.random()) for request in plain]


@dataclass(frozen=True, slots=True)
class UnevenOutputs:
    """Requests at `rate` per second whose output lengths have the mean `mean` and a squared coefficient of variation.

    `variation` 0 makes all of them equal; over 1 a few are very long, drawn from two exponential distributions.
    """

    num_requests: int
    rate: float
    mean: float
    variation: float

    def requests(self, seed: int) -> list[TimedRequest]:
        """Return the requests of a seed in order of arrival."""
        rng, time = random.Random(seed), 0.0
        found: list[TimedRequest] = []
        for number in range(self.num_requests):
            length = max(1, round(self._draw(rng)))
            request = TimedRequest(time, str(number), SyntheticPrompt(16, number), length)
            found.append(with_promise(request, f"tenant {number % 2}", 1.0))
            time += rng.expovariate(self.rate)
        return found

    def _draw(self, rng: random.Random) -> float:
        if self.variation <= 1:
            return self.mean * (1 if self.variation == 0 else rng.gammavariate(1 / self.variation, self.variation))
        share = (1 + ((self.variation - 1) / (self.variation + 1)) ** 0.5) / 2
        is_short = rng.random() < share
        return rng.expovariate(2 * (share if is_short else 1 - share) / self.mean)


def with_promise(request: TimedRequest, tenant: str, draw: float) -> TimedRequest:
    """Return the request with its tenant and class; `draw` is a number from 0 to 1. Long prompts are never urgent."""
    if request.num_prompt_tokens >= LONG_PROMPT:
        return replace(request, tenant=tenant, service_level=LATER, priority=urgency.NORMAL)
    priority = urgency.priority_of(draw)
    level = URGENT if priority == urgency.URGENT else NORMAL
    return replace(request, tenant=tenant, service_level=level, priority=priority)
