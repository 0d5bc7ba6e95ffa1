"""What `bench throughput` runs: who, on which model, with which requests and how much room."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.contender import Settings
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
from mini_vllm.seams.lineup import parse_lineup

OURS = "mini-vllm"
PROFILED = "mini-vllm-profiled"
SLOW = "transformers-one-by-one"
NUM_SLOW = 8
ALL_AT_ONCE, STREAM, SHARED_PREFIX = "all at once", "stream", "shared prefix"
NUM_QUESTIONS = 32


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: who, on which model, with how many requests, how often. Rounds have requests of their own."""

    model: Path
    vocab_size: int
    num_requests: int
    num_rounds: int
    num_threads: int
    contenders: Sequence[str]
    dtype: str = "float32"
    lineup: str = "solution"
    sizes: Sizes = FULL

    def warm_up(self) -> list[TimedRequest]:
        """Return a few chats and a document that no round has, so that no cache knows a round's prompts before it."""
        return [replace(request, max_tokens=8) for request in self._mixed(-1)[: DOCUMENT_EVERY // 2 + 1]]

    def all_at_once(self) -> list[list[TimedRequest]]:
        """Return the rounds of chats with a document now and then."""
        return [self._mixed(number) for number in range(self.num_rounds)]

    def stream(self, requests_per_second: float) -> list[list[TimedRequest]]:
        """Return rounds of the same kind that arrive at this rate."""
        return [poisson_stream(self._mixed(100 + number), requests_per_second) for number in range(self.num_rounds)]

    def shared_prefix(self) -> list[list[TimedRequest]]:
        """Return one round of questions about one document: it is long for whoever computes every prompt."""
        count = min(NUM_QUESTIONS, self.num_requests)
        return [questions_about_one_document(count, self.vocab_size, 0, self.sizes)]

    def profiled(self) -> tuple[list[TimedRequest], list[TimedRequest]]:
        """Return two more rounds of chats and documents: one to warm up, one to look at closely."""
        return self._mixed(200), self._mixed(201)

    def settings(self) -> Settings:
        """Return what every contender is given: room for all requests of a round at once, nothing shared.

        Without phase 5 the budget holds the longest request, for everybody.
        """
        rounds = [*self.all_at_once(), *self.shared_prefix()]
        settings = Settings(
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
