"""Measures how long one client's legal but costly requests delay another client's stream."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mini_vllm_labs.bench.case import Case, Quantity, Side
from mini_vllm_labs.bench.serve.answer import BrokenAnswerError
from mini_vllm_labs.bench.serve.completion import HttpExchange, refused
from mini_vllm_labs.bench.serve.text_requests import Endpoint
from mini_vllm_labs.pictures.terminal.progress import ProgressReport

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
MAX_GAP_MS = 100.0
SECONDS_BEFORE, SECONDS_AFTER, TICK = 0.5, 0.3, 0.005
PATIENCE = 20.0  # seconds after which the hostile client hangs up
Sent = tuple[str, dict[str, Any]]  # the request's path and body


def completion(**fields: Any) -> Sent:
    return COMPLETION, {"prompt": "Mina", "max_tokens": 32, **fields}


def structured(**fields: Any) -> Sent:
    return completion(structured_outputs=fields)


def chat(**fields: Any) -> Sent:
    return CHAT, {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 32, **fields}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema, "b": schema}, "required": ["a"]}
    return schema


def hostile_requests() -> dict[str, Sent]:
    """Return requests that are costly to serve or to refuse, keyed by name."""
    words = [f"word {number}" for number in range(15_000)]
    lark = "start: " + " | ".join(f'"{word}"' for word in words)
    optional = {f"field{number}": {"type": "string"} for number in range(1_500)}
    parameters = {"type": "object", "properties": {f"p{number}": {"type": "integer"} for number in range(30)}}
    tools = [{"type": "function", "function": {"name": f"f{i}", "parameters": parameters}} for i in range(128)]
    story, long = 80_000 * "The kite of Mina flies over the hill. ", {"ignore_eos": True, "max_tokens": 95}
    biases = {str(token_id): 1 for token_id in range(1_024)}
    return {
        "Lark grammar of 15,000 words": structured(grammar=lark),
        "Lark grammar, 100,000 repeats": structured(grammar='start: ("a" | "ab"){100000}'),
        "schema, 1,500 optional fields": structured(json={"type": "object", "properties": optional}),
        "schema, nested 10 deep, 2 each": structured(json=nested(10)),
        "schema, enum of 10,000": structured(json={"enum": words[:10_000]}),
        "schema, nested repeats": structured(json={"type": "string", "pattern": "^(.{0,99}x){0,99}$"}),
        "regex, 2,048 states": structured(regex="(a|b)*a(a|b){10}"),
        "choice of 3,500": structured(choice=words[:3_500]),
        "one of 128 tools": chat(tools=tools, tool_choice="required"),
        "9,000 messages": (CHAT, {"messages": 9_000 * chat()[1]["messages"]}),
        "a prompt of 3 MB": completion(prompt=story),
        "150 prompts of 1,000 tokens": completion(prompt=[[10 + n] * 1_000 for n in range(150)], max_tokens=4),
        "250 prompts of 1,500 letters": completion(prompt=[f"{n} {story[:1_500]}" for n in range(250)]),
        "256 texts, streamed": completion(n=256, stream=True, **long),
        "400,000 logprobs, streamed": completion(n=200, logprobs=20, stream=True, **long),
        "400,000 logprobs, whole": chat(n=200, logprobs=True, top_logprobs=20, **long),
        "64 stop strings of 1,000": completion(n=128, stop=[f"{n:x}" + "q" * 1_000 for n in range(64)], **long),
        "top_k, penalties, 1,024 biases": completion(
            n=128, top_k=1_500, top_p=0.99, presence_penalty=1, repetition_penalty=1.1, logit_bias=biases, **long
        ),
        "/tokenize, 3 MB with strings": ("/tokenize", {"prompt": story, "return_token_strs": True}),
        "/detokenize, 240,000 tokens": ("/detokenize", {"tokens": 80_000 * [300, 400, 500]}),
        "2,000,000 values": completion(prompt=[[1]] * 800_000),
    }


@dataclass(slots=True)
class Neighbour:
    """A client that streams one text after another and records the largest gap, in seconds, between two of its events.

    The time to a text's first event is not counted, because a new request may have to wait.
    """

    endpoint: Endpoint
    largest: float = 0.0
    last: float | None = None

    async def stream(self) -> None:
        """Stream until cancelled."""
        while True:
            self.last = None
            sent = completion(max_tokens=2_000, stream=True, ignore_eos=True)
            await exchange(self.endpoint, encoded(self.endpoint, sent), self._note)

    def _note(self, _: bytes) -> None:
        now = time.perf_counter()
        self.largest, self.last = max(self.largest, now - (self.last or now)), now

    def take(self) -> float:
        """Return the largest gap since the last call, including a gap that is still open."""
        if self.last is not None:
            self._note(b"")
        gap, self.largest = self.largest, 0.0
        return gap


@dataclass(slots=True)
class Tried:
    """A neighbour's largest gap during one request, the delay of this client's own timer, and the request's outcome."""

    gap: float
    lateness: float
    seconds: float
    outcome: str


def encoded(endpoint: Endpoint, sent: Sent) -> bytes:
    path, body = sent
    return endpoint.http("POST", path, json.dumps({"model": endpoint.model, **body}).encode())


async def exchange(endpoint: Endpoint, data: bytes, on_body: Callable[[bytes], None] = lambda data: None) -> str:
    """Send a request and read its whole answer; return `answered`, or why the request was refused."""
    _, http = await asyncio.get_running_loop().create_connection(
        lambda: HttpExchange(data, on_body), endpoint.host, endpoint.port
    )
    try:
        await http.finished
    finally:
        http.close()
    return "answered" if http.status == 200 else refused(http)


def hostile_case(endpoint: Endpoint, report: ProgressReport) -> Iterator[Case]:
    """Yield one case: the largest gap in a neighbour's stream during each request, in ms."""
    requests: dict[str, Sent | None] = {"nothing": None, **hostile_requests()}
    asyncio.run(tried(endpoint, completion(n=64)))  # a warm-up
    sides, notes = dict[str, Side](), list[str]()
    for number, (name, sent) in enumerate(requests.items()):
        report(name, number, len(requests))
        found = asyncio.run(tried(endpoint, sent))
        late = {"end after": Quantity(found.seconds, "s"), "this client late by": Quantity(1e3 * found.lateness, "ms")}
        sides[name] = Side([1e3 * found.gap], late)
        if found.outcome not in ("", "answered"):
            notes.append(f"{name}: {found.outcome[:160]}")
    yield Case("The largest gap of a neighbour's stream during a request", "ms", "", sides, notes)


async def tried(endpoint: Endpoint, sent: Sent | None) -> Tried:
    """Send a request (or just wait for a second) while a neighbour streams."""
    neighbour, lateness = Neighbour(endpoint), 0.0
    # done before the stream, because doing it during the stream would delay it
    data = None if sent is None else encoded(endpoint, sent)

    async def watch() -> None:  # on a busy machine, the server is not the only cause of the gap
        nonlocal lateness
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK)
            lateness = max(lateness, time.perf_counter() - began - TICK)

    streaming = asyncio.create_task(neighbour.stream())
    try:
        await asyncio.sleep(SECONDS_BEFORE)
        neighbour.take()
        watching = asyncio.create_task(watch())
        began, outcome = time.perf_counter(), ""
        try:
            async with asyncio.timeout(PATIENCE):
                outcome = "" if data is None else await exchange(endpoint, data)
        except TimeoutError:
            outcome = f"hung up after {PATIENCE:g} s"
        except BrokenAnswerError as error:
            outcome = str(error)
        seconds = time.perf_counter() - began
        await asyncio.sleep(SECONDS_AFTER)
        watching.cancel()
        return Tried(neighbour.take(), lateness, seconds, outcome)
    finally:
        streaming.cancel()
        with suppress(asyncio.CancelledError):
            await streaming
