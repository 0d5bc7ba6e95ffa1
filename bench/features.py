"""The features of the engine that are measured, each with a workload made for it."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bench.requests import Sizes, questions_about_one_document
from course.workloads.timed_request import TimedRequest

VOCAB = range(4, 1500)
Part = Literal["kv_cache", "preemption", "prefix_cache", "chunking", "runner"]


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, its workload, the settings with it and without it, and the parts that are absent.

    `scale` of `make_requests` is 1 for the measurement and smaller for a quick run. `room` is the KV cache size
    as a share of what would hold all requests at once.
    """

    title: str
    workload: str
    make_requests: Callable[[float], list[TimedRequest]]
    with_it: Mapping[str, Any] = field(default_factory=dict)
    without: Mapping[str, Any] = field(default_factory=dict)
    absent_in_both: Sequence[Part] = ()
    absent_without: Sequence[Part] = ()
    needs: Sequence[Part] = ()
    room: float = 1.0


def _tokens(rng: random.Random, count: float) -> list[int]:
    return rng.choices(VOCAB, k=max(1, round(count)))


def questions(scale: float) -> list[TimedRequest]:
    """Make 32 questions that share a prefix of 1,024 tokens."""
    sizes = Sizes(shared_document=max(1, round(1024 * scale)))
    return questions_about_one_document(max(4, round(32 * scale)), VOCAB.stop, sizes=sizes)


def documents_among_chats(scale: float) -> list[TimedRequest]:
    """Make 8 chats with long outputs, and 8 documents of 1,536 tokens that arrive one by one meanwhile."""
    rng = random.Random("chunked")
    chats = [TimedRequest(0.0, f"chat {n}", _tokens(rng, 16), max(8, round(256 * scale))) for n in range(8)]
    documents = [TimedRequest(0.1 * n, f"document {n}", _tokens(rng, 1536 * scale), 4) for n in range(1, 9)]
    return chats + documents


def answers_of_unknown_length(scale: float) -> list[TimedRequest]:
    """Make 32 requests with a limit of 512 output tokens that mostly finish much earlier."""
    rng = random.Random("preemption")
    limit = max(16, round(512 * scale))
    lengths = [round(limit * rng.random() ** 3) + 4 for _ in range(max(6, round(32 * scale)))]
    return [
        TimedRequest(0.0, str(n), _tokens(rng, 32), limit, output_len=min(length, limit))
        for n, length in enumerate(lengths)
    ]


FEATURES = {
    "prefix": Feature(
        "Prefix caching",
        "32 questions that share a document of 1,024 tokens",
        questions,
        without={"enable_prefix_caching": False},
        needs=("prefix_cache",),
    ),
    "chunked": Feature(
        "Chunked prefill",
        "8 chats that decode while 8 documents of 1,536 tokens arrive",
        documents_among_chats,
        with_it={"max_num_batched_tokens": 128},
        without={"max_num_batched_tokens": 2048, "enable_chunked_prefill": False},
        needs=("chunking",),
    ),
    "preemption": Feature(
        "Blocks on demand and preemption",
        "32 requests of up to 512 tokens, most of which end earlier, in a fifth of the memory",
        answers_of_unknown_length,
        with_it={"max_num_batched_tokens": 2048},
        without={"max_num_batched_tokens": 2048},
        absent_in_both=("prefix_cache", "chunking"),
        absent_without=("kv_cache", "preemption"),
        needs=("kv_cache", "preemption"),
        room=0.2,
    ),
}
