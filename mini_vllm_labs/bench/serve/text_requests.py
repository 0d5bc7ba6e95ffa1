"""Text requests for any server, in words instead of token ids, because only the server has its tokenizer."""

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any
from urllib.parse import urlsplit

from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.workloads import WORKLOADS, Lengths, make_requests, prompt_of, scaled

SHAREGPT = "sharegpt"
SHAREGPT_PROMPT = Lengths(80, 1.6, 4, 1_024)
SHAREGPT_ANSWER = Lengths(150, 0.8, 4, 1_024)
"""Log-normal, about 200 tokens each on average: many short prompts and a few of a thousand tokens, as ShareGPT's."""
DESCRIPTIONS: dict[str, str] = {
    SHAREGPT: "prompts and answers with lengths like ShareGPT's (log-normal); no prompt shares anything",
    # Here, bursts are a setting of every workload.
    **{name: text for name, text in WORKLOADS.items() if name != "burst"},
}
WORDS = (
    "the and was with you rain story felt help car there boy girl after kind brave she white saw yellow play gave "
    "orange green night black come red gray pink blue brown well had home near him happy very walked morning farm "
    "garden old sun boat cold next button box book warm rainbow clock tree together basket shared smiled better told"
).split()


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A prompt, its send time (in seconds from the start), and the number of tokens in its answer."""

    arrival_time: float
    prompt: str
    max_tokens: int


def arrival_times(count: int, rate: float, burstiness: float = 1.0, seed: int = 0) -> list[float]:
    """Return `count` arrival times in seconds, in order, at `rate` per second.

    The gaps are drawn from a gamma distribution with shape `burstiness`: 1 gives a Poisson process, lower values give
    bursts, and higher values steadier arrivals. The times are scaled so that the last one is at `count / rate`,
    whatever the seed; at an infinite rate all are 0. Raises `ValueError` if the count is below 1, or if the rate or
    burstiness is not above 0.
    """
    if count < 1:
        raise ValueError(f"the number of requests must be at least 1, got {count}")
    if not rate > 0:
        raise ValueError(f"request_rate must be greater than 0 requests per second, or inf, got {rate}")
    if not 0 < burstiness < math.inf:
        raise ValueError(f"burstiness must be finite and greater than 0, got {burstiness}")
    if rate == math.inf:
        return [0.0] * count
    rng = random.Random(f"arrivals {seed}")
    times = list(accumulate(rng.gammavariate(burstiness, 1.0) for _ in range(count)))
    return [time * count / (rate * times[-1]) for time in times]


def text_requests(
    workload: str,
    count: int,
    rate: float,
    burstiness: float = 1.0,
    scale: float = 1.0,
    seed: int = 0,
    round_number: int = 0,
) -> list[TextRequest]:
    """Return `count` requests of a workload in order of arrival; the same arguments give the same requests.

    A word is about one token. `scale` multiplies all lengths. A higher rate sends the same requests at shorter
    intervals; a different round has the same lengths but different words. Raises `ValueError` for an unknown workload,
    and whenever `arrival_times` does.
    """
    times = arrival_times(count, rate, burstiness, seed)
    text_seed = f"{seed} {round_number}"
    if workload == SHAREGPT:
        return sharegpt_requests(times, scale, seed, text_seed)
    if workload not in DESCRIPTIONS:
        raise ValueError(f"workload must be one of {', '.join(DESCRIPTIONS)}, got {workload!r}")
    requests = scaled(make_requests(workload, count, rate=1.0, seed=seed), scale)
    return [
        TextRequest(time, prompt_text(request, text_seed), request.max_tokens)
        for time, request in zip(times, requests, strict=True)
    ]


def sharegpt_requests(times: Sequence[float], scale: float, seed: int, text_seed: str) -> list[TextRequest]:
    """Return a request for each of `times`."""
    rng = random.Random(f"lengths {seed}")
    lengths = [(SHAREGPT_PROMPT.draw(rng), SHAREGPT_ANSWER.draw(rng)) for _ in times]
    return [
        TextRequest(time, words(max(1, round(prompt * scale)), f"{text_seed} {number}"), max(1, round(answer * scale)))
        for number, (time, (prompt, answer)) in enumerate(zip(times, lengths, strict=True))
    ]


def prompt_text(request: TimedRequest, text_seed: str) -> str:
    """Return a synthetic prompt as text; two texts share as long a prefix as their prompts do."""
    prompt = prompt_of(request)
    num_shared = min(prompt.num_shared_tokens, prompt.num_tokens)
    shared = words(num_shared, f"{text_seed} shared {prompt.shared_prefix}")
    own = words(prompt.num_tokens - num_shared, f"{text_seed} {prompt.conversation}")
    return f"{shared} {own}".strip()


def words(count: int, seed: str) -> str:
    """Return `count` words; a larger count with the same seed starts with the same words."""
    return " ".join(random.Random(seed).choices(WORDS, k=count))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI endpoint: `base_url` may or may not end in `/v1`; `extra_body` is added to every request.

    `is_chat` sends the prompt as a single user message to `/v1/chat/completions`. Raises `ValueError` for a URL that is
    not http or https.
    """

    base_url: str
    model: str
    api_key: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    is_chat: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"base_url must be http://HOST:PORT or https://HOST:PORT, got {self.base_url!r}")

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.base_url).port or (443 if self.is_encrypted else 80)

    @property
    def is_encrypted(self) -> bool:
        return urlsplit(self.base_url).scheme == "https"

    @property
    def path(self) -> str:
        """The path of the completions endpoint."""
        return "/v1/chat/completions" if self.is_chat else "/v1/completions"

    def body(self, request: TextRequest) -> dict[str, Any]:
        """Return a request's body: greedy, streamed, and with usage reported at the end."""
        prompt: dict[str, Any] = {"prompt": request.prompt}
        if self.is_chat:
            prompt = {"messages": [{"role": "user", "content": request.prompt}]}
        return {
            "model": self.model,
            **prompt,
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.extra_body,
        }

    def post(self, request: TextRequest) -> bytes:
        """Return the bytes of a request."""
        return self.http("POST", self.path, json.dumps(self.body(request)).encode())

    def http(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Return the bytes of an HTTP request after which the connection closes."""
        prefix = urlsplit(self.base_url).path.rstrip("/").removesuffix("/v1")
        headers = [
            f"{method} {prefix}{path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        if self.api_key is not None:
            headers.append(f"Authorization: Bearer {self.api_key}")
        return "\r\n".join([*headers, "", ""]).encode() + body
