"""The results that a caller receives: vLLM's `RequestOutput` and `CompletionOutput`, and their parts."""

from dataclasses import dataclass
from typing import NamedTuple

MetricValues = tuple[float, float | None, float | None, float | None, float | None, int, int, int]


class Logprob(NamedTuple):
    """A token's log probability (natural logarithm) and its rank, which is 1 for the most likely token.

    This is a tuple, because a step may send thousands of them, and a frozen dataclass takes longer to pickle.
    """

    logprob: float
    rank: int


TokenLogprobs = dict[int, Logprob]  # the sampled token and the most likely ones at one position, keyed by token id


@dataclass(slots=True)
class RequestMetrics:
    """Times and counts for one request. A time is None until its event happens."""

    arrival_time: float
    first_scheduled_time: float | None = None
    first_token_time: float | None = None
    last_token_time: float | None = None
    finished_time: float | None = None
    num_output_tokens: int = 0
    num_preemptions: int = 0
    num_cached_tokens: int = 0

    @property
    def queue_time(self) -> float | None:
        """Seconds from arrival to the first step that computed any of the request's tokens."""
        return None if self.first_scheduled_time is None else self.first_scheduled_time - self.arrival_time

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from arrival to the first token."""
        return None if self.first_token_time is None else self.first_token_time - self.arrival_time

    @property
    def inter_token_latency(self) -> float | None:
        """Mean seconds from one token to the next, or None if there are fewer than two tokens."""
        if self.first_token_time is None or self.last_token_time is None or self.num_output_tokens < 2:
            return None
        return (self.last_token_time - self.first_token_time) / (self.num_output_tokens - 1)

    @property
    def e2e_latency(self) -> float | None:
        """Seconds from arrival to the end."""
        return None if self.finished_time is None else self.finished_time - self.arrival_time

    def values(self) -> MetricValues:
        """Return the values of all fields, in order. (`dataclasses.astuple` takes twenty times as long.)"""
        return (
            self.arrival_time,
            self.first_scheduled_time,
            self.first_token_time,
            self.last_token_time,
            self.finished_time,
            self.num_output_tokens,
            self.num_preemptions,
            self.num_cached_tokens,
        )

    def copy(self) -> "RequestMetrics":
        """Return a copy that later steps do not change."""
        return RequestMetrics(*self.values())

    def tokens_arrived(self, now: float, num_output_tokens: int) -> None:
        """Record the token count and the time if `num_output_tokens` has increased."""
        if num_output_tokens > self.num_output_tokens:
            self.first_token_time = now if self.first_token_time is None else self.first_token_time
            self.last_token_time = now
            self.num_output_tokens = num_output_tokens


@dataclass(slots=True)
class CompletionOutput:
    """The generated text of one request. `finish_reason` is None until the text ends.

    `logprobs` has an entry per token if the request sets `logprobs`; an entry lost in an interrupted step is None.
    """

    text: str
    token_ids: list[int]
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: list[TokenLogprobs | None] | None = None


@dataclass(slots=True)
class RequestOutput:
    """One request and its completion so far. `outputs` has one element.

    `new_text` and the last `num_new_tokens` tokens were added since the previous output.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    metrics: RequestMetrics
    new_text: str = ""
    num_new_tokens: int = 0
    error: str | None = None

    @property
    def finished(self) -> bool:
        return self.outputs[0].finish_reason is not None
