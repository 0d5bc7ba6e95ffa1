"""What `bench throughput` runs: backends, model, requests and KV cache size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.backend import BackendSettings
from bench.requests import (
    DOCUMENT_EVERY,
    FULL,
    Sizes,
    longest,
    poisson_stream,
    questions_about_one_document,
    room_needed,
    skewed_requests,
)
from course.workloads.timed_request import TimedRequest
from mini_vllm.assembly.lineup import parse_lineup

OURS = "mini-vllm"
PROFILED = "mini-vllm-profiled"
SLOW = "transformers-one-by-one"
NUM_SLOW = 8
ALL_AT_ONCE, STREAM, SHARED_PREFIX = "all at once", "stream", "shared prefix"
NUM_QUESTIONS = 32


@dataclass(frozen=True, slots=True)
class ThroughputPlan:
    """The backends, the model, the number of requests and of rounds. Every round has its own requests."""

    model: Path
    vocab_size: int
    num_requests: int
    num_rounds: int
    num_threads: int
    backends: Sequence[str]
    dtype: str = "float32"
    lineup: str = "solution"
    sizes: Sizes = FULL

    def warm_up(self) -> list[TimedRequest]:
        """Return a few chats and a document that occur in no round, so that no round starts with cached prompts."""
        return [replace(request, max_tokens=8) for request in self._mixed(-1)[: DOCUMENT_EVERY // 2 + 1]]

    def all_at_once(self) -> list[list[TimedRequest]]:
        """Return the rounds of chats with occasional documents."""
        return [self._mixed(number) for number in range(self.num_rounds)]

    def stream(self, requests_per_second: float) -> list[list[TimedRequest]]:
        """Return rounds of the same kind with Poisson arrivals at this rate."""
        return [poisson_stream(self._mixed(100 + number), requests_per_second) for number in range(self.num_rounds)]

    def shared_prefix(self) -> list[list[TimedRequest]]:
        """Return one round of questions about one document; it is slow for backends without a prefix cache."""
        count = min(NUM_QUESTIONS, self.num_requests)
        return [questions_about_one_document(count, self.vocab_size, 0, self.sizes)]

    def profiled(self) -> tuple[list[TimedRequest], list[TimedRequest]]:
        """Return two more rounds of chats and documents: a warm-up and one to profile."""
        return self._mixed(200), self._mixed(201)

    def settings(self) -> BackendSettings:
        """Return the settings of every backend: KV cache for all requests of a round at once, nothing shared.

        Without phase 5 the budget of every backend holds the longest request.
        """
        rounds = [*self.all_at_once(), *self.shared_prefix()]
        settings = BackendSettings(
            str(self.model),
            self.dtype,
            self.num_threads,
            max(map(room_needed, rounds)),
            max_num_seqs=self.num_requests,
            lineup=self.lineup,
        )
        if parse_lineup(self.lineup).chunking == "absent":
            settings = settings.for_whole_prompts(max(map(longest, rounds)))
        return settings

    def _mixed(self, round_number: int) -> list[TimedRequest]:
        return skewed_requests(self.num_requests, self.vocab_size, round_number, self.sizes)
