"""Requests that must be refused: broken JSON and UTF-8, wrong values, what is no HTTP, and a body of 100 MB."""

import asyncio
import json
from collections.abc import Iterator

from bench.serve.endpoint import Endpoint
from bench.serve.faults.memory import watched
from bench.serve.faults.raw import send_raw
from bench.serve.faults.site import Site
from bench.serve.faults.tally import Tally

NUM_BESIDE = 8
PART = b" " * 2**20
NUM_LARGE = 2
MAX_GROWTH = 64 * 2**20
"""Bytes that the server may take meanwhile: far less than one of the bodies."""
BODIES: dict[str, bytes] = {
    "an empty body": b"",
    "half a JSON object": b'{"prompt": "hello", "max_tok',
    "a list": b"[1, 2, 3]",
    "null": b"null",
    "no JSON": b"prompt=hello",
    "two objects": b'{"prompt": "a"}{"prompt": "b"}',
    "bytes that are no UTF-8": b'{"prompt": "\xff\xfe\xfa"}',
    "half a character": b'{"prompt": "\xe2\x82"}',
    "half a surrogate pair": b'{"prompt": "\\ud83d"}',
    "brackets without end": b'{"prompt": ' + b"[" * 100_000,
    "no prompt": b'{"max_tokens": 4}',
    "a prompt that is a number": b'{"prompt": 7}',
    "an empty prompt": b'{"prompt": ""}',
    "token ids that the model does not have": b'{"prompt": [99999999]}',
    "negative max_tokens": b'{"prompt": "hello", "max_tokens": -1}',
    "max_tokens as text": b'{"prompt": "hello", "max_tokens": "many"}',
    "a temperature that is no number": b'{"prompt": "hello", "temperature": NaN}',
    "an infinite temperature": b'{"prompt": "hello", "temperature": 1e999}',
    "a field that is not supported": b'{"prompt": "hello", "response_format": {"type": "json_object"}}',
    "another model": b'{"prompt": "hello", "model": "another"}',
}
"""Each must be answered by a status from 400 to 499 and an error in OpenAI's form."""
NO_HTTP: dict[str, bytes] = {
    "the first bytes of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
    "a line that is no request": b"hello, is anybody there?\r\n\r\n",
    "a length that is no number": b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
    "two lengths": b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a header without end": b"GET /health HTTP/1.1\r\nHost: a\r\nX-Long: " + b"x" * 2**20,
}
"""Each must be answered by a status from 400 to 499, or the connection closed."""


async def malformed(site: Site) -> Tally:
    """Send everything that must be refused, many times, while others are answered."""
    tally, rounds = Tally(), site.sizes.malformed_rounds
    beside = site.ask_all(tally, site.drawn(site.questions.usual, NUM_BESIDE * rounds), NUM_BESIDE)
    await asyncio.gather(beside, *(refused_round(site.endpoint, tally) for _ in range(rounds)))
    return tally


async def refused_round(endpoint: Endpoint, tally: Tally) -> None:
    """Send each malformed request once, one after another."""
    for what, body in BODIES.items():
        answer = await send_raw(endpoint, [endpoint.http("POST", endpoint.path, body)])
        tally.refuse(what, 400 <= answer.status < 500 and answer.is_openai_error, str(answer))
    for what, request in NO_HTTP.items():
        answer = await send_raw(endpoint, [request])
        tally.refuse(what, answer.status == 0 or 400 <= answer.status < 500, str(answer))


async def large_bodies(site: Site) -> Tally:
    """Send bodies of 100 MB, with their length declared and in chunks without one; both are 413, others answered."""
    tally, size = Tally(), site.sizes.body_bytes
    beside = site.ask_all(tally, site.drawn(site.questions.usual, NUM_BESIDE), NUM_BESIDE)
    large = [
        refused_as_too_large(site.endpoint, tally, parts)
        for _ in range(NUM_LARGE)
        for parts in (declared(site.endpoint, size), chunked(site.endpoint, size))
    ]
    before = site.server.resources().rss
    async with watched(site) as peak:
        await asyncio.gather(beside, *large)
    if peak.rss - before > MAX_GROWTH:
        tally.problems[f"the memory grew by {(peak.rss - before) / 2**20:.0f} MiB meanwhile"] += 1
    return tally


async def refused_as_too_large(endpoint: Endpoint, tally: Tally, parts: Iterator[bytes]) -> None:
    """Send one large body; only 413 is right."""
    answer = await send_raw(endpoint, parts)
    tally.refuse("a body that is too large", answer.status == 413 and answer.is_openai_error, str(answer))


def declared(endpoint: Endpoint, size: int) -> Iterator[bytes]:
    """Yield a request with a body of `size` bytes and its Content-Length."""
    head = endpoint.http("POST", endpoint.path).replace(b"Content-Length: 0", f"Content-Length: {size}".encode())
    yield head
    yield from body(size)


def chunked(endpoint: Endpoint, size: int) -> Iterator[bytes]:
    """Yield a request with a body of `size` bytes in chunks."""
    yield endpoint.http("POST", endpoint.path).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    for part in body(size):
        yield f"{len(part):x}\r\n".encode() + part + b"\r\n"
    yield b"0\r\n\r\n"


def body(size: int) -> Iterator[bytes]:
    """Yield a JSON object of about `size` bytes: a prompt of spaces."""
    start, end = json.dumps({"prompt": ""})[:-2].encode(), b'"}'
    yield start
    for _ in range(size // len(PART) - 1):
        yield PART
    yield PART[: len(PART) - len(start) - len(end)] + end
