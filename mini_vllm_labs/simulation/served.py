"""The result of a simulation: when each request got its first and last tokens, and the gaps between tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mini_vllm_labs.runs.workloads.percentiles import percentiles
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest


@dataclass(frozen=True, slots=True)
class Slo:
    """A service level objective: two limits in seconds; a request is good if it meets both.

    `time_to_first_token` is measured from arrival; `inter_token_latency` is the mean over a request's tokens.
    """

    time_to_first_token: float = 1.0
    inter_token_latency: float = 0.05

    def __post_init__(self) -> None:
        for name in ("time_to_first_token", "inter_token_latency"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} of an SLO must be more than 0 seconds, got {getattr(self, name)}")


@dataclass(slots=True)
class Served:
    """The times of a served workload, in seconds on the virtual clock; lists are in order of arrival.

    `gaps` contains times from one token to the next, each with the number of tokens that had this gap, because all
    decodes in a step share it. `peak_context_tokens` is the largest number of tokens that any step attended to.
    `hit_rate` is the share of prompt tokens found in the prefix cache at first admission.
    """

    requests: Sequence[TimedRequest]
    first_token_times: list[float]
    finished_times: list[float]
    gaps: list[tuple[float, int]] = field(default_factory=list)
    num_steps: int = 0
    num_computed_tokens: int = 0
    peak_context_tokens: int = 0
    most_running: int = 0
    num_preemptions: int = 0
    hit_rate: float = 0.0

    @property
    def times_to_first_token(self) -> list[float]:
        """Seconds from each request's arrival to its first token."""
        pairs = zip(self.requests, self.first_token_times, strict=True)
        return [first - request.arrival_time for request, first in pairs]

    @property
    def mean_inter_token_latencies(self) -> list[float]:
        """Each request's mean number of seconds between tokens, or 0 for an output of one token."""
        times = zip(self.requests, self.first_token_times, self.finished_times, strict=True)
        return [(last - first) / max(1, request.num_output_tokens - 1) for request, first, last in times]

    @property
    def e2e_latencies(self) -> list[float]:
        """Seconds from each request's arrival to its last token."""
        pairs = zip(self.requests, self.finished_times, strict=True)
        return [last - request.arrival_time for request, last in pairs]

    @property
    def seconds(self) -> float:
        """Seconds from the first arrival to the last token."""
        return max(self.finished_times) - self.requests[0].arrival_time

    @property
    def output_tokens_per_second(self) -> float:
        return sum(request.num_output_tokens for request in self.requests) / self.seconds

    def time_to_first_token(self, percents: Sequence[float]) -> list[float]:
        """Return percentiles of the time to first token, in seconds."""
        return percentiles(self.times_to_first_token, percents)

    @property
    def median_ttft(self) -> float:
        """The median time to first token in seconds."""
        return self.time_to_first_token([50])[0]

    def inter_token_latency(self, percents: Sequence[float]) -> list[float]:
        """Return percentiles over all gaps between tokens, in seconds."""
        return percentiles([seconds for seconds, _ in self.gaps], percents, [count for _, count in self.gaps])

    def share_good(self, slo: Slo) -> float:
        times = zip(self.times_to_first_token, self.mean_inter_token_latencies, strict=True)
        return sum(is_good(slo, first, between) for first, between in times) / len(self.requests)

    def goodput(self, slo: Slo) -> float:
        """Return the number of requests per second that met the objective."""
        return self.share_good(slo) * len(self.requests) / self.seconds


def is_good(slo: Slo, time_to_first_token: float, inter_token_latency: float) -> bool:
    return time_to_first_token <= slo.time_to_first_token and inter_token_latency <= slo.inter_token_latency
