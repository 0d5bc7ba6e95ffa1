"""The open loop: requests go out at their planned times, whatever comes back."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.serve.answer import Answer
from bench.serve.completion import TIMEOUT, complete
from bench.serve.endpoint import Endpoint
from bench.serve.text_requests import TextRequest

OnProgress = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Round:
    """The answers in order of their requests, and what the client itself took.

    `lags` are the seconds by which the client was late to send; `cpu_seconds` is its CPU time.
    """

    answers: list[Answer]
    lags: list[float]
    seconds: float
    cpu_seconds: float

    @property
    def completed(self) -> list[Answer]:
        """The answers that are whole."""
        return [answer for answer in self.answers if answer.error is None]


async def send_all(
    endpoint: Endpoint,
    requests: Sequence[TextRequest],
    max_concurrency: int | None = None,
    timeout: float = TIMEOUT,
    on_progress: OnProgress = lambda done: None,
) -> Round:
    """Send every request at its time and read all answers. `on_progress` receives the number of ended requests.

    With `max_concurrency` no more than so many are under way at once: the loop is then no longer open, and a latency
    counts from the moment at which its request may go out.
    """
    places = None if max_concurrency is None else asyncio.Semaphore(max_concurrency)
    start, cpu_start, num_ended = time.perf_counter(), time.process_time(), 0
    lags: list[float] = []

    async def one(request: TextRequest) -> Answer:
        nonlocal num_ended
        lags.append(max(0.0, time.perf_counter() - start - request.arrival_time))
        if places is None:
            answer = await complete(endpoint, request, start, timeout)
        else:
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
            tasks.append(group.create_task(one(request)))
    answers = [task.result() for task in tasks]
    return Round(answers, lags, time.perf_counter() - start, time.process_time() - cpu_start)


def run_round(
    endpoint: Endpoint,
    requests: Sequence[TextRequest],
    max_concurrency: int | None = None,
    timeout: float = TIMEOUT,
    on_progress: OnProgress = lambda done: None,
) -> Round:
    """Run `send_all` to its end."""
    return asyncio.run(send_all(endpoint, requests, max_concurrency, timeout, on_progress))
