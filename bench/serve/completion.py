"""One request, answered: whatever a server does, the result is an `Answer`."""

import asyncio
import json
import socket
import time

from bench.serve.answer import Answer, EventStream, error_message
from bench.serve.endpoint import Endpoint
from bench.serve.http_exchange import BrokenAnswerError, HttpExchange, OnBody
from bench.serve.text_requests import TextRequest

TIMEOUT = 600.0


async def complete(endpoint: Endpoint, request: TextRequest, start: float, timeout: float = TIMEOUT) -> Answer:
    """Send a request now and read its answer to the end. `start` is the `time.perf_counter()` of the round.

    Never raises because of a server: `Answer.error` has the reason, such as `HTTP 429: the queue is full`.
    """
    answer = Answer(planned=request.arrival_time, sent=time.perf_counter() - start)
    events = EventStream(answer, start)
    try:
        async with asyncio.timeout(timeout):
            http = await connect(endpoint, endpoint.post(request), events.feed)
            try:
                await http.finished
            finally:
                http.close()
                answer.status = http.status
        if http.status == 200:
            events.finish()
        else:
            answer.error = refused(http)
    except TimeoutError:
        answer.error = f"no end within {timeout:g} seconds"
    except BrokenAnswerError as error:
        answer.error = str(error)
    except OSError as error:
        answer.error = f"no connection: {error.strerror or error}"
    answer.ended = time.perf_counter() - start
    return answer


async def connect(
    endpoint: Endpoint, request: bytes, on_body: OnBody, sock: socket.socket | None = None
) -> HttpExchange:
    """Connect, by `sock` if one is given, and send the bytes of a request; return the exchange under way.

    Raises `OSError` without a connection.
    """
    loop = asyncio.get_running_loop()
    tls = True if endpoint.is_encrypted else None
    if sock is None:
        _, http = await loop.create_connection(
            lambda: HttpExchange(request, on_body), endpoint.host, endpoint.port, ssl=tls
        )
        return http
    sock.setblocking(False)
    await loop.sock_connect(sock, (endpoint.host, endpoint.port))
    _, http = await loop.create_connection(lambda: HttpExchange(request, on_body), sock=sock, ssl=tls)
    return http


def refused(http: HttpExchange) -> str:
    """Return the status and the message of an answer that is no completion."""
    try:
        message = error_message(json.loads(http.refusal))
    except ValueError:
        message = http.refusal[:200].decode(errors="replace")
    return f"HTTP {http.status}: {message}".strip()
