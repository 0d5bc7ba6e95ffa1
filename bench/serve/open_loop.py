"""The open loop: requests go out at their planned times, whatever comes back."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.backend import OnProgress
from bench.serve.answer import ClientAnswer
from bench.serve.completion import TIMEOUT, complete
from bench.serve.endpoint import Endpoint
from bench.serve.text_requests import TextRequest


@dataclass(frozen=True, slots=True)
class Round:
    """The answers in the order of their requests, and what the client itself used.

    `lags` are the seconds by which the client was late to send; `cpu_seconds` is its CPU time.
    """

    answers: list[ClientAnswer]
    lags: list[float]
    seconds: float
    cpu_seconds: float

    @property
    def completed(self) -> list[ClientAnswer]:
        """The answers that are whole."""
        return [answer for answer in self.answers if answer.error is None]


def run_round(
    endpoint: Endpoint,
    requests: Sequence[TextRequest],
    max_concurrency: int | None = None,
    timeout: float = TIMEOUT,
    on_progress: OnProgress = lambda done: None,
) -> Round:
    """Send every request at its time and read all answers. `on_progress` receives the number of ended requests.

    With `max_concurrency` at most that many are under way at once: the loop is then no longer open, and a latency
    counts from the moment at which its request may go out.
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
