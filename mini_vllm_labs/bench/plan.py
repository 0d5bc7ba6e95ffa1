"""Plans `bench throughput`, and draws the requests for all benchmarks: short chats, long documents, shared prefixes."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.cdiv import cdiv
from mini_vllm_labs.bench.backend import ALL_GREEDY, BackendSettings, Load
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

DOCUMENT_EVERY = 8
BLOCK_TOKENS = 32  # unit of `room_needed`: a multiple of every backend's block size
OURS = "mini-vllm"
PROFILED = "mini-vllm-profiled"
SLOW = "transformers-one-by-one"
NUM_SLOW = 8  # number of requests for the backends in `SLOW`, which would take minutes to serve all of them
WORKLOADS = ALL_AT_ONCE, STREAM, SHARED_PREFIX = "all at once", "stream", "shared prefix"
NUM_QUESTIONS = 32
MIN_BATCHED = 8  # number of requests in a round: a single request takes only a few milliseconds


@dataclass(frozen=True, slots=True)
class Sizes:
    """Lengths in tokens. Ranges include both ends."""

    chat_prompt: tuple[int, int] = (16, 128)
    chat_output: tuple[int, int] = (16, 128)
    document_prompt: tuple[int, int] = (512, 1024)
    document_output: tuple[int, int] = (32, 96)
    question: tuple[int, int] = (8, 24)
    shared_document: int = 1024
    answer: int = 16
    even_prompt: int = 64
    even_output: int = 64


FULL = Sizes()
QUICK = Sizes((8, 48), (8, 24), (128, 200), (8, 16), shared_document=160, even_prompt=16, even_output=8)


def skewed_requests(count: int, vocab_size: int, round_number: int = 0, sizes: Sizes = FULL) -> list[TimedRequest]:
    """Draw chats and documents. Every round has the same lengths but new token ids, so no prompt is found in the cache.

    Chat lengths are uniform on a logarithmic scale (short ones are common); every eighth request is a document.
    """
    lengths, tokens = random.Random(f"lengths {count}"), random.Random(f"tokens {round_number}")
    requests = []
    for index in range(count):
        is_document = index % DOCUMENT_EVERY == DOCUMENT_EVERY // 2
        prompt_range = sizes.document_prompt if is_document else sizes.chat_prompt
        output_range = sizes.document_output if is_document else sizes.chat_output
        prompt_len = _draw(lengths, prompt_range)
        prompt = [tokens.randrange(4, vocab_size) for _ in range(prompt_len)]
        requests.append(TimedRequest(0.0, str(index), prompt, _draw(lengths, output_range)))
    return requests


def questions_about_one_document(
    count: int, vocab_size: int, round_number: int = 0, sizes: Sizes = FULL
) -> list[TimedRequest]:
    """Draw questions that begin with the same document. Every round has the same lengths but a different document."""
    lengths, tokens = random.Random(f"questions {count}"), random.Random(f"document {round_number}")
    vocab = range(4, vocab_size)
    document = tokens.choices(vocab, k=sizes.shared_document)
    return [
        TimedRequest(0.0, str(n), document + tokens.choices(vocab, k=lengths.randint(*sizes.question)), sizes.answer)
        for n in range(count)
    ]


def even_requests(count: int, vocab_size: int, seed: str, sizes: Sizes = FULL) -> list[TimedRequest]:
    """Draw requests with equal prompt and output lengths: the best case for `generate`, which then needs no padding."""
    vocab, rng = range(4, vocab_size), random.Random(seed)
    prompts = (rng.choices(vocab, k=sizes.even_prompt) for _ in range(count))
    return [TimedRequest(0.0, str(number), prompt, sizes.even_output) for number, prompt in enumerate(prompts)]


def _draw(rng: random.Random, ends: tuple[int, int]) -> int:
    low, high = ends
    length: float = low * (high / low) ** rng.random()
    return round(length)


def poisson_stream(requests: Sequence[TimedRequest], requests_per_second: float) -> list[TimedRequest]:
    """Give the requests the arrival times of a Poisson process; the first request arrives at 0."""
    rng, now, stream = random.Random("arrivals"), 0.0, []
    for request in requests:
        stream.append(replace(request, arrival_time=now))
        now += rng.expovariate(requests_per_second)
    return stream


def longest(requests: Sequence[TimedRequest]) -> int:
    """Return the maximum number of tokens in a request, prompt and output together."""
    return max(request.num_prompt_tokens + request.max_tokens for request in requests)


def room_needed(requests: Sequence[TimedRequest]) -> int:
    """Return how many tokens the KV cache needs to hold all requests at once, each rounded up to whole blocks."""
    return sum(
        cdiv(request.num_prompt_tokens + request.num_output_tokens, BLOCK_TOKENS) * BLOCK_TOKENS for request in requests
    )


@dataclass(frozen=True, slots=True)
class Workload:
    """Rounds of requests; the backends serve each round in turn. `note` describes the requests."""

    title: str
    note: str
    rounds: Sequence[list[TimedRequest]]
    load: Load = ALL_GREEDY


@dataclass(frozen=True, slots=True)
class ThroughputPlan:
    """The backends, the model, and how many requests and rounds to run. Every round has different requests.

    Greedy chats, documents and questions come first, then batches of each size at each temperature.
    """

    model: Path
    vocab_size: int
    num_requests: int
    num_rounds: int
    num_threads: int
    backends: Sequence[str]
    dtype: str = "float32"
    lineup: str = "solution"
    sizes: Sizes = FULL
    batch_sizes: Sequence[int] = ()
    temperatures: Sequence[float] = (0.0,)

    def warm_up(self) -> list[TimedRequest]:
        """Return a few chats and a document that no round repeats, so that a round's prompts are never cached."""
        return [replace(request, max_tokens=8) for request in self._mixed(-1)[: DOCUMENT_EVERY // 2 + 1]]

    def workloads(self, requests_per_second: Callable[[], float]) -> Iterator[Workload]:
        """Yield all workloads. `requests_per_second` is called after `ALL_AT_ONCE` has been served."""
        sizes, count = self.sizes, min(NUM_QUESTIONS, self.num_requests)
        mixed = (
            f"{self.num_requests} requests. Every eighth request is a document of {ends(sizes.document_prompt)} tokens "
            f"with {ends(sizes.document_output)} output tokens. The other requests are chats of "
            f"{ends(sizes.chat_prompt)} tokens with {ends(sizes.chat_output)} output tokens."
        )
        shared = (
            f"{count} questions of {ends(sizes.question)} tokens about a shared document of {sizes.shared_document:,} "
            f"tokens, with {sizes.answer} output tokens each. There is only one round, because a backend without a "
            "prefix cache is slow."
        )
        yield Workload(ALL_AT_ONCE, mixed, [self._mixed(number) for number in range(self.num_rounds)])
        rate = requests_per_second()
        full = "the rate that our engine reaches when all of them arrive at once"
        streamed = f"{mixed} On average, {rate:.2f} requests arrive per second, which is half {full}."
        yield Workload(STREAM, streamed, self.stream(rate))
        questions = questions_about_one_document(count, self.vocab_size, 0, sizes)
        yield Workload(SHARED_PREFIX, shared, [questions])
        for number, temperature in enumerate(self.temperatures, start=2):
            ending = f", temperature {temperature}" if temperature else ""
            if temperature:
                yield Workload(STREAM + ending, streamed, self.stream(rate, number), Load(temperature))
            for size in self.batch_sizes:
                requests = f"{max(size, MIN_BATCHED)} requests with {sizes.even_prompt} input tokens"
                even = f"{requests} and {sizes.even_output} output tokens each."
                yield Workload(f"batch {size}{ending}", even, self.batches(size, ending), Load(temperature, size))

    def stream(self, requests_per_second: float, first: int = 1) -> list[list[TimedRequest]]:
        """Return rounds of chats and documents with Poisson arrivals; a different `first` gives different tokens."""
        numbers = range(1000 * first, 1000 * first + self.num_rounds)
        return [poisson_stream(self._mixed(number), requests_per_second) for number in numbers]

    def batches(self, size: int, ending: str = "") -> list[list[TimedRequest]]:
        """Return rounds of requests with equal lengths that fill at least one batch of this size."""
        seeds = [f"batch {size}{ending} {number}" for number in range(self.num_rounds)]
        return [even_requests(max(size, MIN_BATCHED), self.vocab_size, seed, self.sizes) for seed in seeds]

    def profiled(self) -> tuple[list[TimedRequest], list[TimedRequest]]:
        """Return two more rounds of chats and documents: a warm-up and one to profile."""
        return self._mixed(200), self._mixed(201)  # numbers that no other round uses, so that no prompt is cached

    def settings(self) -> BackendSettings:
        """Return the settings of every backend. The KV cache can hold all of a round's requests without sharing.

        Without phase 5, every backend's budget is large enough for the longest request.
        """
        rounds = [requests for workload in self.workloads(lambda: 1.0) for requests in workload.rounds]
        settings = BackendSettings(
            str(self.model),
            self.dtype,
            self.num_threads,
            max(map(room_needed, rounds)),
            max_num_seqs=max(self.num_requests, *self.batch_sizes, 1),
            lineup=self.lineup,
        )
        if parse_lineup(self.lineup).chunking == "absent":
            settings = settings.for_whole_prompts(max(map(longest, rounds)))
        return settings

    def _mixed(self, round_number: int) -> list[TimedRequest]:
        return skewed_requests(self.num_requests, self.vocab_size, round_number, self.sizes)


def ends(pair: tuple[int, int]) -> str:
    return f"{pair[0]:,} to {pair[1]:,}"
