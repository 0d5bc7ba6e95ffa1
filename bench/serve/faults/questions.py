"""Requests with known answers: every text that a server completes is compared with the offline one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from bench.backend import Settings
from bench.serve.offline import OfflineProcess
from bench.serve.text_requests import TextRequest, words

NUM_QUESTIONS = 64
SHORT_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Question:
    """A request and its right answer."""

    request: TextRequest
    text: str


@dataclass(frozen=True, slots=True)
class Questions:
    """Usual ones, short ones, and long ones for slow readers."""

    usual: Sequence[Question]
    short: Sequence[Question]
    long: Sequence[Question]


def answered_questions(settings: Settings, num_long: int, long_tokens: int) -> Questions:
    """Return questions with the answers of `LLM.generate`, greedy, in a process of its own. Raises `PeerError`."""
    rng = Random("questions")
    usual = [TextRequest(0.0, words(rng.randrange(3, 60), f"{n}"), rng.randrange(8, 33)) for n in range(NUM_QUESTIONS)]
    short = [replace(request, max_tokens=SHORT_TOKENS) for request in usual]
    long = [TextRequest(0.0, words(5, f"long {n}"), long_tokens) for n in range(num_long)]
    process = OfflineProcess(settings, ignore_eos=True)
    try:
        usual_ones, short_ones, long_ones = (
            [Question(request, text) for request, text in zip(requests, process.answer(requests).texts, strict=True)]
            for requests in (usual, short, long)
        )
    finally:
        process.close()
    return Questions(usual_ones, short_ones, long_ones)
