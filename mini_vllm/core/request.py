"""One request: its tokens, its two counters and its place in life.

A request is done computing when `num_computed_tokens` has caught up with `num_tokens`. There is no
prefill mode and no decode mode: a prompt is a request that is far behind, a decode one that is one
token behind. (vLLM: `v1/request.py`.)
"""

import enum
from dataclasses import dataclass, field

from mini_vllm.sampling_params import SamplingParams


class RequestStatus(enum.IntEnum):
    """Where a request is. Everything after `PREEMPTED` is final."""

    WAITING = enum.auto()
    RUNNING = enum.auto()
    PREEMPTED = enum.auto()
    FINISHED_STOPPED = enum.auto()
    FINISHED_LENGTH_CAPPED = enum.auto()
    FINISHED_ABORTED = enum.auto()
    FINISHED_ERROR = enum.auto()


FINISH_REASONS = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_ABORTED: "abort",
    RequestStatus.FINISHED_ERROR: "error",
}


@dataclass(slots=True, eq=False)
class Request:
    """One request as the scheduler sees it.

    `num_computed_tokens` counts the tokens whose K and V are in the cache, or will be when the step
    being planned has run. `num_cached_tokens` is the prefix hit of the first admission, -1 before it.
    `cache_salt` and `adapter_id` keep the cached blocks of tenants and adapters apart. `seed` is what
    the request's random draws come from.
    """

    request_id: str
    prompt_token_ids: list[int]
    sampling_params: SamplingParams = field(default_factory=SamplingParams)
    eos_token_ids: frozenset[int] = frozenset()
    priority: int = 0
    arrival_time: float = 0.0
    cache_salt: str | None = None
    adapter_id: str | None = None
    seed: int = 0

    status: RequestStatus = field(default=RequestStatus.WAITING, init=False)
    all_token_ids: list[int] = field(init=False)
    num_prompt_tokens: int = field(init=False)
    num_computed_tokens: int = field(default=0, init=False)
    num_cached_tokens: int = field(default=-1, init=False)
    num_preemptions: int = field(default=0, init=False)
    stop_reason: int | str | None = field(default=None, init=False)
    block_hashes: list[bytes] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.all_token_ids = list(self.prompt_token_ids)
        self.num_prompt_tokens = len(self.prompt_token_ids)

    @property
    def num_tokens(self) -> int:
        """Prompt and output tokens so far."""
        return len(self.all_token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.all_token_ids) - self.num_prompt_tokens

    @property
    def output_token_ids(self) -> list[int]:
        """A copy of the tokens generated so far."""
        return self.all_token_ids[self.num_prompt_tokens :]

    @property
    def is_finished(self) -> bool:
        return self.status > RequestStatus.PREEMPTED

    @property
    def finish_reason(self) -> str | None:
        """`stop`, `length`, `abort`, `error`, or None while the request lives."""
        return FINISH_REASONS.get(self.status)

    def max_total_tokens(self, max_model_len: int) -> int:
        """The most tokens, prompt included, that the request can ever have."""
        return min(self.num_prompt_tokens + self.sampling_params.max_tokens, max_model_len)
