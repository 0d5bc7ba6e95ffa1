"""Named workloads: who comes when, with how much to read and to say, and what they have in common."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

WorkloadName = Literal["chat", "documents", "shared-prefix", "mixed", "burst"]


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """One request: when it comes (seconds), and its lengths in tokens.

    The first `num_shared_tokens` of its prompt are those of everybody with the same `shared_prefix`. The
    rest, and its answer, are those of its `conversation`: a later turn of a conversation begins with all
    that was said before. Lower `priority` is more urgent.
    """

    arrival_time: float
    num_prompt_tokens: int
    num_output_tokens: int
    conversation: int
    shared_prefix: int = 0
    num_shared_tokens: int = 0
    priority: int = 0

    def prompt_token_ids(self) -> list[int]:
        """Return token ids that agree with another request's exactly as far as the two share their text."""
        shared = min(self.num_shared_tokens, self.num_prompt_tokens)
        own = self.num_prompt_tokens - shared
        return [2 * self.shared_prefix + 1] * shared + [2 * self.conversation] * own


@dataclass(frozen=True, slots=True)
class Lengths:
    """A skewed distribution of lengths: lognormal with this median and shape, cut at both ends. In tokens."""

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
MOST_TURNS = 6
SECONDS_BETWEEN_TURNS = 30.0
NUM_PASSAGES, PASSAGE_TOKENS = 200, 2_048
DOCUMENT_SHARE = 0.1
BURSTINESS = 4.0

WORKLOADS: dict[WorkloadName, str] = {
    "chat": "conversations of 1 to 6 turns behind one system prompt; every turn repeats what was said before",
    "documents": "long prompts that share nothing, short answers",
    "shared-prefix": "questions about 200 long passages, some of them far more popular than others",
    "mixed": "nine chats to one document: the documents get in the way of the answers",
    "burst": "chats that come in bursts: the gaps between them vary 4 times as much as a Poisson stream's",
}


def make_requests(name: str, num_requests: int, rate: float, seed: int = 0) -> list[TimedRequest]:
    """Return `num_requests` requests of a named workload, in order of arrival, `rate` a second on average.

    The same arguments give the same requests. Another rate gives the same ones closer together or further
    apart, except for `chat`, where it gives more users or fewer.
    Raises `ValueError` that says what is legal.
    """
    if num_requests < 1:
        raise ValueError(f"num_requests must be at least 1, got {num_requests}")
    if not 0 < rate < math.inf:
        raise ValueError(f"rate must be a finite number of requests per second over 0, got {rate}")
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
    """Return the same requests with all lengths multiplied by `factor`, at least one token each, for a small model."""
    if not 0 < factor < math.inf:
        raise ValueError(f"scale must be a finite number over 0, got {factor}")
    return [
        replace(
            request,
            num_prompt_tokens=max(1, round(request.num_prompt_tokens * factor)),
            num_output_tokens=max(1, round(request.num_output_tokens * factor)),
            num_shared_tokens=round(request.num_shared_tokens * factor),
        )
        for request in requests
    ]


def _poisson(rng: random.Random, rate: float, count: int) -> Iterator[float]:
    return _arrivals(lambda: rng.expovariate(1.0), rate, count)


def _bursts(rng: random.Random, rate: float, count: int) -> Iterator[float]:
    """Gaps from a gamma distribution whose deviation is `BURSTINESS` times its mean."""
    shape = 1 / BURSTINESS**2
    return _arrivals(lambda: rng.gammavariate(shape, 1 / shape), rate, count)


def _arrivals(gap: Callable[[], float], rate: float, count: int) -> Iterator[float]:
    time = 0.0
    for _ in range(count):
        yield time / rate
        time += gap()


def _message(rng: random.Random, time: float, number: int) -> TimedRequest:
    num_prompt_tokens = SYSTEM_TOKENS + CHAT_MESSAGE.draw(rng)
    return TimedRequest(time, num_prompt_tokens, CHAT_ANSWER.draw(rng), number, num_shared_tokens=SYSTEM_TOKENS)


def _document(rng: random.Random, time: float, number: int) -> TimedRequest:
    return TimedRequest(time, DOCUMENT.draw(rng), DOCUMENT_ANSWER.draw(rng), number)


def _questions(rng: random.Random, rate: float, count: int) -> list[TimedRequest]:
    """Passage k is asked about in proportion to 1 / k."""
    passages = rng.choices(range(NUM_PASSAGES), [1 / (k + 1) for k in range(NUM_PASSAGES)], k=count)
    return [
        TimedRequest(
            time,
            PASSAGE_TOKENS + QUESTION.draw(rng),
            DOCUMENT_ANSWER.draw(rng),
            number,
            shared_prefix=1 + passage,
            num_shared_tokens=PASSAGE_TOKENS,
        )
        for number, (time, passage) in enumerate(zip(_poisson(rng, rate, count), passages, strict=True))
    ]


def _chats(rng: random.Random, rate: float, count: int) -> list[TimedRequest]:
    """So many users that each takes a turn every `SECONDS_BETWEEN_TURNS` on average, one conversation after another."""
    num_users = max(1, round(rate * SECONDS_BETWEEN_TURNS))
    turns: list[Iterator[TimedRequest]] = [iter(())] * num_users
    requests: list[TimedRequest] = []
    for number, time in enumerate(_poisson(rng, rate, count)):
        user = rng.randrange(num_users)
        turn = next(turns[user], None)
        if turn is None:
            turns[user] = _conversation(rng, number)
            turn = next(turns[user])
        requests.append(replace(turn, arrival_time=time))
    return requests


def _conversation(rng: random.Random, number: int) -> Iterator[TimedRequest]:
    """Yield 1 to `MOST_TURNS` turns, each behind all that was said before. When they come is for others to say."""
    num_tokens = SYSTEM_TOKENS
    for _ in range(rng.randint(1, MOST_TURNS)):
        num_tokens += CHAT_MESSAGE.draw(rng)
        num_output_tokens = CHAT_ANSWER.draw(rng)
        yield TimedRequest(0.0, num_tokens, num_output_tokens, number, num_shared_tokens=SYSTEM_TOKENS)
        num_tokens += num_output_tokens
