"""The requests of a benchmark: short chats, long documents, questions about one document, and when they arrive."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from course.workloads.timed_request import TimedRequest
from mini_vllm.core.cdiv import cdiv

DOCUMENT_EVERY = 8
BLOCK_TOKENS = 32
"""A multiple of every backend's block size: room is counted in these."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Ranges of lengths in tokens, both ends included."""

    chat_prompt: tuple[int, int] = (16, 128)
    chat_output: tuple[int, int] = (16, 128)
    document_prompt: tuple[int, int] = (512, 1024)
    document_output: tuple[int, int] = (32, 96)
    question: tuple[int, int] = (8, 24)
    shared_document: int = 1024
    answer: int = 16


FULL = Sizes()
QUICK = Sizes((8, 48), (8, 24), (128, 200), (8, 16), shared_document=160)


def skewed_requests(count: int, vocab_size: int, round_number: int = 0, sizes: Sizes = FULL) -> list[TimedRequest]:
    """Draw requests. Every round has the same lengths and different token ids, so no cache helps the next.

    Chat lengths are drawn evenly on a logarithmic scale (short ones are common); every eighth request is a
    document.
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
    """Draw questions that begin with the same document. Every round has the same lengths and a different document."""
    lengths, tokens = random.Random(f"questions {count}"), random.Random(f"document {round_number}")
    vocab = range(4, vocab_size)
    document = tokens.choices(vocab, k=sizes.shared_document)
    return [
        TimedRequest(0.0, str(n), document + tokens.choices(vocab, k=lengths.randint(*sizes.question)), sizes.answer)
        for n in range(count)
    ]


def _draw(rng: random.Random, ends: tuple[int, int]) -> int:
    low, high = ends
    length: float = low * (high / low) ** rng.random()
    return round(length)


def poisson_stream(requests: Sequence[TimedRequest], requests_per_second: float) -> list[TimedRequest]:
    """Return the requests with arrivals of a Poisson process; the first arrives at 0."""
    rng, now, stream = random.Random("arrivals"), 0.0, []
    for request in requests:
        stream.append(replace(request, arrival_time=now))
        now += rng.expovariate(requests_per_second)
    return stream


def longest(requests: Sequence[TimedRequest]) -> int:
    """Return the maximum length of a request in tokens, prompt and output."""
    return max(request.num_prompt_tokens + request.max_tokens for request in requests)


def room_needed(requests: Sequence[TimedRequest]) -> int:
    """Return the tokens of KV cache that hold all requests at once, each in whole blocks."""
    return sum(
        cdiv(request.num_prompt_tokens + request.num_output_tokens, BLOCK_TOKENS) * BLOCK_TOKENS for request in requests
    )
