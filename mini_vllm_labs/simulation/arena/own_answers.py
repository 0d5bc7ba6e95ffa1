"""Prompts held out from the training of the embedded model's ranker, with the lengths of the model's answers."""

import json
import lzma
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.arena.loads import with_promise

FILE = Path(__file__).parent / "data" / "own_answers.json.xz"


@dataclass(frozen=True, slots=True)
class Answered:
    """A prompt and the number of tokens in its greedy answer."""

    prompt_token_ids: tuple[int, ...]
    num_output_tokens: int


def read_own_answers() -> list[Answered]:
    """Return prompts that were not used to train the ranker."""
    rows = json.loads(lzma.decompress(FILE.read_bytes()))
    return [Answered(tuple(prompt), length) for prompt, length in rows]


@dataclass(frozen=True, slots=True)
class OwnAnswers:
    """A load of `num_requests` of these prompts at random times, on average `rate` per second."""

    num_requests: int
    rate: float

    def requests(self, seed: int) -> list[TimedRequest]:
        """Return a seed's requests in order of arrival."""
        rng, time, answered = random.Random(seed), 0.0, read_own_answers()
        found: list[TimedRequest] = []
        for number in range(self.num_requests):
            one = rng.choice(answered)
            request = TimedRequest(time, str(number), one.prompt_token_ids, one.num_output_tokens)
            found.append(with_promise(request, f"tenant {1 + rng.randrange(3)}", rng.random()))
            time += rng.expovariate(self.rate)
        return found


def kendalls_tau(scores: Sequence[float], lengths: Sequence[int]) -> float:
    """Return Kendall's tau-b of two orderings: 1 if they agree on every pair, -1 if they agree on none. (Kendall
    1945.)"""
    agreeing = disagreeing = tied_scores = tied_lengths = 0
    for place, (score, length) in enumerate(zip(scores, lengths, strict=True)):
        for other_score, other_length in zip(scores[place + 1 :], lengths[place + 1 :], strict=True):
            product = (score - other_score) * (length - other_length)
            agreeing += product > 0
            disagreeing += product < 0
            tied_scores += score == other_score and length != other_length
            tied_lengths += length == other_length and score != other_score
    by_score, by_length = agreeing + disagreeing + tied_lengths, agreeing + disagreeing + tied_scores
    return (agreeing - disagreeing) / (by_score * by_length) ** 0.5 if by_score and by_length else 0.0
