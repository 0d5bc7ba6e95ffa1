"""Defines one request of a workload; the course and the benchmarks share this class."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mini_vllm.core.service_level import BEST_EFFORT, ServiceLevel


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """A request and its arrival time, which is in seconds, or in steps if the workload has no clock.

    The engine receives `max_tokens` as its limit. The output ends after `output_len` tokens if set, otherwise at
    `max_tokens`. A lower `priority` is more urgent. `adapter_id` names the adapter that the request needs, if any.
    """

    arrival_time: float
    request_id: str
    prompt_token_ids: Sequence[int]
    max_tokens: int
    priority: int = 0
    output_len: int | None = None
    tenant: str = ""
    service_level: ServiceLevel = BEST_EFFORT
    adapter_id: str | None = None

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt_token_ids)

    @property
    def num_output_tokens(self) -> int:
        return self.max_tokens if self.output_len is None else self.output_len


def require_in_order(requests: Sequence[TimedRequest]) -> None:
    """Raise `ValueError` if there are no requests or they are not in order of `arrival_time`."""
    if not requests:
        raise ValueError("requests must contain at least one request, got none")
    for before, after in pairwise(requests):
        if after.arrival_time < before.arrival_time:
            raise ValueError(
                f"requests must be sorted by arrival_time, got {after.arrival_time} after {before.arrival_time}"
            )
