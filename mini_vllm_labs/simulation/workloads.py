"""Named workloads, which define arrival times, prompt and output lengths, and shared prefixes."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Literal, overload

from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

WorkloadName = Literal["chat", "documents", "shared-prefix", "mixed", "burst"]


class LazyPrompt(Sequence[int]):
    """Token ids that a subclass's `__iter__` creates when they are read."""

    __slots__ = ()
    num_tokens: int

    def __len__(self) -> int:
        return self.num_tokens

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        return list(self)[index]


@dataclass(frozen=True, slots=True)
class SyntheticPrompt(LazyPrompt):
    """A prompt of `num_tokens` token ids that agree with another prompt's exactly as far as the two share text.

    The first `num_shared_tokens` tokens are the same in every prompt with the same `shared_prefix`. The remaining
    tokens belong to a `conversation`, in which each turn begins with all tokens of the earlier turns.
    """

    num_tokens: int
    conversation: int
    shared_prefix: int = 0
    num_shared_tokens: int = 0

    def __iter__(self) -> Iterator[int]:
        shared = min(self.num_shared_tokens, self.num_tokens)
        own = self.num_tokens - shared
        # Shared parts have odd ids and private parts have even ids, so they never match.
        return chain(repeat(2 * self.shared_prefix + 1, shared), repeat(2 * self.conversation, own))

    def scaled(self, factor: float) -> "SyntheticPrompt":
        """Return the prompt with each of its lengths multiplied by `factor` (at least one token)."""
        num_tokens = max(1, round(self.num_tokens * factor))
        return replace(self, num_tokens=num_tokens, num_shared_tokens=round(self.num_shared_tokens * factor))


def prompt_of(request: TimedRequest) -> SyntheticPrompt:
    """Return the prompt of a request from `make_requests`. Raises `TypeError` for a prompt of real token ids."""
    prompt = request.prompt_token_ids
    if not isinstance(prompt, SyntheticPrompt):
        raise TypeError(f"the prompt of a named workload must be a SyntheticPrompt, got a {type(prompt).__name__}")
    return prompt


@dataclass(frozen=True, slots=True)
class Lengths:
    """A skewed distribution of lengths in tokens: lognormal with this median and sigma, clamped at both ends."""

    median: float
    sigma: float
    least: int
    most: int

    def draw(self, rng: random.Random) -> int:
        return min(self.most, max(self.least, round(rng.lognormvariate(math.log(self.median), self.sigma))))


CHAT_MESSAGE = Lengths(60, 0.9, 4, 1_000)
CHAT_ANSWER = Lengths(150, 0.7, 8, 800)
DOCUMENT = Lengths(3_000, 0.6, 500, 12_000)
DOCUMENT_ANSWER = Lengths(80, 0.6, 8, 400)
QUESTION = Lengths(40, 0.5, 8, 200)
SYSTEM_TOKENS = 256
MAX_TURNS = 6
SECONDS_BETWEEN_TURNS = 30.0
NUM_PASSAGES, PASSAGE_TOKENS = 200, 2_048
DOCUMENT_SHARE = 0.1
BURSTINESS = 4.0

WORKLOADS: dict[WorkloadName, str] = {
    "chat": "conversations of 1 to 6 turns with one system prompt; every turn repeats the whole conversation so far",
    "documents": "long prompts that share nothing, short answers",
    "shared-prefix": "questions about 200 long passages, some of them far more popular than others",
    "mixed": "nine chats to one document: the long prompts slow down the outputs of the chats",
    "burst": "chats that arrive in bursts: the gaps between arrivals vary 4 times as much as in a Poisson process",
}


def make_requests(name: str, num_requests: int, rate: float, seed: int = 0) -> list[TimedRequest]:
    """Return `num_requests` requests of a named workload in order of arrival, on average `rate` per second.

    The same arguments give the same requests. A different rate moves the same requests closer together or farther
    apart, except in `chat`, where it changes the number of users. Prompts are `SyntheticPrompt`s. Raises `ValueError`
    for an unknown name, for no requests, or for a rate that is not finite and greater than 0.
    """
    if num_requests < 1:
        raise ValueError(f"num_requests must be at least 1, got {num_requests}")
    if not 0 < rate < math.inf:
        raise ValueError(f"rate must be a finite number of requests per second greater than 0, got {rate}")
    rng = random.Random(seed)
    match name:
        case "chat":
            requests = _chats(rng, rate, num_requests)
        case "documents":
            requests = [_document(rng, time, n) for n, time in enumerate(_poisson(rng, rate, num_requests))]
        case "shared-prefix":
            requests = _questions(rng, rate, num_requests)
        case "mixed":
            requests = [
                _document(rng, time, n) if rng.random() < DOCUMENT_SHARE else _message(rng, time, n)
                for n, time in enumerate(_poisson(rng, rate, num_requests))
            ]
        case "burst":
            requests = [_message(rng, time, n) for n, time in enumerate(_bursts(rng, rate, num_requests))]
        case _:
            raise ValueError(f"workload must be one of {', '.join(WORKLOADS)}, got {name!r}")
    return requests


def scaled(requests: Sequence[TimedRequest], factor: float) -> list[TimedRequest]:
    """Return the requests for a small model, with each length multiplied by `factor` (at least one token)."""
    if not 0 < factor < math.inf:
        raise ValueError(f"scale must be finite and greater than 0, got {factor}")
    return [
        replace(
            request,
            prompt_token_ids=prompt_of(request).scaled(factor),
            max_tokens=max(1, round(request.max_tokens * factor)),
        )
        for request in requests
    ]


def _poisson(rng: random.Random, rate: float, count: int) -> Iterator[float]:
    return _arrivals(lambda: rng.expovariate(1.0), rate, count)


def _bursts(rng: random.Random, rate: float, count: int) -> Iterator[float]:
    """Draw gaps from a gamma distribution whose standard deviation is `BURSTINESS` times its mean."""
    shape = 1 / BURSTINESS**2  # the standard deviation of a gamma distribution is its mean / sqrt(shape)
    return _arrivals(lambda: rng.gammavariate(shape, 1 / shape), rate, count)


def _arrivals(gap: Callable[[], float], rate: float, count: int) -> Iterator[float]:
    time = 0.0
    for _ in range(count):
        yield time / rate  # the gaps are drawn for a rate of 1, so that every rate gets the same requests
        time += gap()


def _message(rng: random.Random, time: float, number: int) -> TimedRequest:
    prompt = SyntheticPrompt(SYSTEM_TOKENS + CHAT_MESSAGE.draw(rng), number, num_shared_tokens=SYSTEM_TOKENS)
    return TimedRequest(time, str(number), prompt, CHAT_ANSWER.draw(rng))


def _document(rng: random.Random, time: float, number: int) -> TimedRequest:
    return TimedRequest(time, str(number), SyntheticPrompt(DOCUMENT.draw(rng), number), DOCUMENT_ANSWER.draw(rng))


def _questions(rng: random.Random, rate: float, count: int) -> list[TimedRequest]:
    """Return questions about passages; passage k is drawn with a probability proportional to 1 / k."""
    passages = rng.choices(range(NUM_PASSAGES), [1 / (k + 1) for k in range(NUM_PASSAGES)], k=count)
    return [
        TimedRequest(
            time,
            str(number),
            SyntheticPrompt(PASSAGE_TOKENS + QUESTION.draw(rng), number, 1 + passage, PASSAGE_TOKENS),
            DOCUMENT_ANSWER.draw(rng),
        )
        for number, (time, passage) in enumerate(zip(_poisson(rng, rate, count), passages, strict=True))
    ]


def _chats(rng: random.Random, rate: float, count: int) -> list[TimedRequest]:
    """Return turns from enough users to reach the rate if each sends one turn every `SECONDS_BETWEEN_TURNS`."""
    num_users = max(1, round(rate * SECONDS_BETWEEN_TURNS))
    turns: list[Iterator[TimedRequest]] = [iter(())] * num_users
    requests: list[TimedRequest] = []
    for number, time in enumerate(_poisson(rng, rate, count)):
        user = rng.randrange(num_users)
        turn = next(turns[user], None)
        if turn is None:
            turns[user] = _conversation(rng, number)
            turn = next(turns[user])
        requests.append(replace(turn, arrival_time=time, request_id=str(number)))
    return requests


def _conversation(rng: random.Random, number: int) -> Iterator[TimedRequest]:
    """Yield 1 to `MAX_TURNS` turns, each prefixed with the conversation so far. `arrival_time` is not yet set."""
    num_tokens = SYSTEM_TOKENS
    for _ in range(rng.randint(1, MAX_TURNS)):
        num_tokens += CHAT_MESSAGE.draw(rng)
        num_output_tokens = CHAT_ANSWER.draw(rng)
        prompt = SyntheticPrompt(num_tokens, number, num_shared_tokens=SYSTEM_TOKENS)
        yield TimedRequest(0.0, "", prompt, num_output_tokens)
        num_tokens += num_output_tokens
