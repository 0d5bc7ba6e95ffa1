"""One request, answered: whatever a server does, the result is an `Answer`."""

import asyncio
import json
import time

from bench.serve.answer import Answer, EventStream, error_message
from bench.serve.endpoint import Endpoint
from bench.serve.http_exchange import BrokenAnswerError, HttpExchange
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
            _, http = await asyncio.get_running_loop().create_connection(
                lambda: HttpExchange(endpoint.post(request), events.feed),
                endpoint.host,
                endpoint.port,
                ssl=endpoint.is_encrypted or None,
            )
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


def refused(http: HttpExchange) -> str:
    """Return the status and the message of an answer that is no completion."""
    try:
        message = error_message(json.loads(http.refusal))
    except ValueError:
        message = http.refusal[:200].decode(errors="replace")
    return f"HTTP {http.status}: {message}".strip()
