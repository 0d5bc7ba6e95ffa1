"""The client: sends one request and reads its answer, or sends all requests at their planned times (open loop).

Whatever a server does, the answer is a `ClientAnswer`, and the next request is sent on time.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httptools

from mini_vllm_labs.bench.backend import OnProgress
from mini_vllm_labs.bench.serve.answer import BrokenAnswerError, ClientAnswer, EventStream, error_message
from mini_vllm_labs.bench.serve.text_requests import Endpoint, TextRequest

OnBody = Callable[[bytes], None]
MAX_REFUSAL_BYTES = 10_000  # only the message in an error response is shown
TIMEOUT = 600.0


class HttpExchange(asyncio.Protocol):
    """One HTTP/1.1 request with as little Python per chunk as possible, because the server shares the cores.

    The object sends `request` once it is connected; if the status is 200, it calls `on_body` with each part of the
    response body.

    The body of a response with any other status is stored in `refusal`. `finished` is set when the answer is complete;
    it raises `BrokenAnswerError` if the answer can no longer be completed.
    """

    def __init__(self, request: bytes, on_body: OnBody) -> None:
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # An exchange that timed out while connecting is never awaited; without this line, asyncio would log its error
        # at exit.
        self.finished.add_done_callback(lambda finished: finished.cancelled() or finished.exception())
        self.status = 0
        self.transport: asyncio.Transport | None = None
        self.num_bytes = 0
        self.refusal = b""
        self._request, self._on_body = request, on_body
        self._parser = httptools.HttpResponseParser(self)
        self._has_length = self._has_headers = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.num_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            cause = error.__context__  # httptools wraps whatever a callback raises
            self._end(cause if isinstance(cause, BrokenAnswerError) else BrokenAnswerError(f"not HTTP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        # this kind of answer ends when its connection closes
        if self._has_headers and not self._has_length and exc is None:
            self._end(None)
        elif self.num_bytes == 0:
            self._end(BrokenAnswerError(f"no answer: the connection was closed{f' ({exc})' if exc else ''}"))
        else:
            self._end(BrokenAnswerError("the connection was cut before the answer's end"))

    # httptools calls this method and the next three by name.
    def on_header(self, name: bytes, value: bytes) -> None:
        self._has_length |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self._has_headers, self.status = True, self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if self.status == 200:
            self._on_body(body)
        elif len(self.refusal) < MAX_REFUSAL_BYTES:
            self.refusal += body

    def on_message_complete(self) -> None:
        self._end(None)

    def close(self) -> None:
        """Close the connection immediately; data that has not yet arrived is lost."""
        if self.transport is not None:
            self.transport.abort()

    def _end(self, error: BrokenAnswerError | None) -> None:
        if not self.finished.done():
            if error is None:
                self.finished.set_result(None)
            else:
                self.finished.set_exception(error)
        if self.transport is not None:
            self.transport.close()


async def complete(endpoint: Endpoint, request: TextRequest, start: float, timeout: float = TIMEOUT) -> ClientAnswer:
    """Send a request now and read its answer to the end. `start` is the value of `time.perf_counter()` when the round
    began.

    The server's answer never makes this function raise: `ClientAnswer.error` contains the reason for a failure, such as
    `HTTP 429: the queue is full`.
    """
    answer = ClientAnswer(planned=request.arrival_time, sent=time.perf_counter() - start)
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
    """Return the status and error message of an answer that is not a completion."""
    try:
        message = error_message(json.loads(http.refusal))
    except ValueError:
        message = http.refusal[:200].decode(errors="replace")
    return f"HTTP {http.status}: {message}".strip()


@dataclass(frozen=True, slots=True)
class Round:
    """The answers in the order of their requests, and the client's own delays and CPU time.

    `lags` are the client's delays in sending, in seconds; `cpu_seconds` is its CPU time.
    """

    answers: list[ClientAnswer]
    lags: list[float]
    seconds: float
    cpu_seconds: float

    @property
    def completed(self) -> list[ClientAnswer]:
        """The complete answers."""
        return [answer for answer in self.answers if answer.error is None]


def run_round(
    endpoint: Endpoint,
    requests: Sequence[TextRequest],
    max_concurrency: int | None = None,
    timeout: float = TIMEOUT,
    on_progress: OnProgress = lambda done: None,
) -> Round:
    """Send every request at its planned time, and read all answers. `on_progress` receives the number of requests that
    have finished.

    If `max_concurrency` is set, at most that many requests are in progress at once. The loop is then no longer open,
    and latencies are measured from the moment a request may be sent.
    """
    return asyncio.run(_send_all(endpoint, requests, max_concurrency or len(requests), timeout, on_progress))


async def _send_all(
    endpoint: Endpoint, requests: Sequence[TextRequest], max_concurrency: int, timeout: float, on_progress: OnProgress
) -> Round:
    places = asyncio.Semaphore(max_concurrency)
    start, cpu_start, num_ended = time.perf_counter(), time.process_time(), 0
    lags: list[float] = []

    async def send_one(request: TextRequest) -> ClientAnswer:
        nonlocal num_ended
        lags.append(max(0.0, time.perf_counter() - start - request.arrival_time))
        async with places:
            answer = await complete(endpoint, request, start, timeout)
        num_ended += 1
        on_progress(num_ended)
        return answer

    async with asyncio.TaskGroup() as group:
        tasks = []
        for request in requests:
            if (wait := start + request.arrival_time - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            tasks.append(group.create_task(send_one(request)))
    answers = [task.result() for task in tasks]
    return Round(answers, lags, time.perf_counter() - start, time.process_time() - cpu_start)
