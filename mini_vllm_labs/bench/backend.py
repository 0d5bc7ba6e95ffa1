"""Defines what all backends in a comparison share: settings, arriving requests, a served round and its figures."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from mini_vllm.config import EngineConfig
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

BLOCK_SIZE = 16
OnProgress = Callable[[int], object]  # is passed the number of requests finished in a round


@dataclass(slots=True)
class ServedRound:
    """Each request's tokens, and when each token was produced, in seconds since the round began.

    Requests keep their order; a slow backend may have served only the first few of them. Only our engine fills `steps`.
    `seconds_by_operator` is filled only if every operator was timed. `cpu_seconds` sums over all threads, and is the
    figure that other work on the machine affects least.
    """

    token_ids: list[list[int]]
    token_times: list[list[float]]
    seconds: float
    peak_rss_bytes: int = 0
    cpu_seconds: float = 0.0
    steps: list[dict[str, float]] = field(default_factory=list)
    seconds_by_operator: dict[str, float] = field(default_factory=dict)

    @property
    def num_output_tokens(self) -> int:
        return sum(map(len, self.token_ids))

    @property
    def tokens_per_second(self) -> float:
        return self.num_output_tokens / self.seconds


def require_complete(requests: Sequence[TimedRequest], served: ServedRound, name: str) -> None:
    """Raise `RuntimeError` if a backend returned too few or too many tokens, which makes its figures meaningless."""
    for index, (request, tokens, times) in enumerate(zip(requests, served.token_ids, served.token_times, strict=False)):
        if not len(tokens) == len(times) == request.num_output_tokens:
            raise RuntimeError(
                f"{name} returned {len(tokens)} tokens for request {index} instead of {request.num_output_tokens}"
            )


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """The settings that all backends share. An empty `model` means the embedded model; otherwise it is a directory."""

    model: str
    dtype: str = "float32"
    num_threads: int = 1  # 0 lets the backend choose
    kv_cache_tokens: int = 8192
    max_num_batched_tokens: int = 512
    max_num_seqs: int = 64
    lineup: str = "solution"
    num_served: int | None = None  # a slow backend serves only the first few requests; None means all
    # maximum number of tokens in a request, used only by mini-vLLM; None means the model's limit
    max_model_len: int | None = None
    async_scheduling: bool = False  # used only by mini-vLLM
    spin_count: int | None = None  # how many times libgomp's waiting threads poll; None lets the backend choose
    quantization: str | None = None  # int8: the type of the weights, quantised by each backend in its own way

    def for_whole_prompts(self, longest: int) -> "BackendSettings":
        """Return the settings for a lineup without chunked prefill, where the budget must hold the longest request."""
        budget = max(longest, self.max_num_batched_tokens)
        return replace(self, max_num_batched_tokens=budget, max_model_len=longest)

    def engine_config(self) -> EngineConfig:
        """Return our engine's settings."""
        return EngineConfig(
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_model_len=self.max_model_len,
            block_size=BLOCK_SIZE,
            num_gpu_blocks=self.kv_cache_tokens // BLOCK_SIZE + 1,  # one extra block, for the null block
            dtype=self.dtype,
            quantization=self.quantization,
            async_scheduling=self.async_scheduling,
        )

    def environment(self) -> dict[str, str]:
        """Return the environment variables that configure a process's compute threads, unless the backend configures
        them itself."""
        chosen = {"OMP_NUM_THREADS": self.num_threads or None, "GOMP_SPINCOUNT": self.spin_count}
        return {name: str(value) for name, value in chosen.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Load:
    """How to serve a round's requests: the temperature, and how many to serve at once (None: all that have arrived)."""

    temperature: float = 0.0
    batch_size: int | None = None


ALL_GREEDY = Load()


class Backend(Protocol):
    """Serves each request to its full length. `on_progress` receives the number of finished requests.

    Above temperature 0 every backend draws from the whole vocabulary, without top-k or top-p.
    """

    facts: dict[str, Any]

    def serve(self, requests: Sequence[TimedRequest], on_progress: OnProgress, load: Load) -> ServedRound: ...


class Arrivals:
    """Releases a round's requests as they arrive, at most `batch_size` at once, and collects their tokens.

    The clock starts at construction.
    """

    def __init__(
        self,
        requests: Sequence[TimedRequest],
        batch_size: int | None = None,
        on_progress: OnProgress = lambda count: None,
    ) -> None:
        self.requests, self.batch_size, self.on_progress = requests, batch_size or len(requests), on_progress
        self.next = self.num_finished = 0
        self.token_ids: list[list[int]] = [[] for _ in requests]
        self.token_times: list[list[float]] = [[] for _ in requests]
        self.start = time.perf_counter()

    @property
    def now(self) -> float:
        """Seconds since the round began."""
        return time.perf_counter() - self.start

    @property
    def all_in(self) -> bool:
        return self.next == len(self.requests)

    @property
    def all_finished(self) -> bool:
        return self.num_finished == len(self.requests)

    def take(self, max_count: int | None = None) -> list[int]:
        """Return the indices of newly arrived requests."""
        first, now = self.next, self.now
        end = min(self.num_finished + self.batch_size, first + (max_count or len(self.requests)))
        while not self.all_in and self.requests[self.next].arrival_time <= now and self.next < end:
            self.next += 1
        return list(range(first, self.next))

    def wait(self) -> None:
        """Sleep until the next request arrives."""
        time.sleep(max(0.0, self.requests[self.next].arrival_time - self.now))

    def note(
        self, index: int, new: Sequence[int], times: Sequence[float] = (), *, finished: bool | None = None
    ) -> bool:
        """Record a request's new tokens; return whether it is finished.

        With `finished=None`, the request is finished when it reaches its full length. `times` are seconds since the
        round began; the default is the current time.
        """
        self.token_ids[index] += new
        self.token_times[index] += times or [self.now] * len(new)
        if finished is None:
            finished = len(self.token_ids[index]) >= self.requests[index].num_output_tokens
        if finished:
            self.num_finished += 1
            self.on_progress(self.num_finished)
        return finished

    def served(self) -> ServedRound:
        """Return the results of the finished round."""
        return ServedRound(self.token_ids, self.token_times, self.now)
