"""SIGTERM in the middle: running requests end, new ones are refused, and the process exits."""

import asyncio
import time

from bench.serve.answer import Answer
from bench.serve.faults.site import Site, gauge
from bench.serve.faults.tally import Tally

NUM_LATE = 10
EXIT_SECONDS = 60.0
POLL_SECONDS = 0.02
REFUSALS = ("no connection", "no answer", "HTTP 503")


async def sigterm(site: Site) -> Tally:
    """Send SIGTERM while every stream runs, then ask more.

    The server must answer all that it had taken, refuse the late ones, and exit with 0.
    """
    tally = Tally()
    questions = site.drawn(site.questions.long, site.sizes.last_streams)
    asked = [asyncio.create_task(site.ask(question)) for question in questions]
    await until_all_run(site, asked)
    site.server.terminate()
    await until_refused(site, tally)
    for question in site.drawn(site.questions.usual, NUM_LATE):
        answer = await site.ask(question)
        tally.refuse("a request after SIGTERM", is_refusal(answer), answer.error or "it was answered")
    for question, answer in zip(questions, await asyncio.gather(*asked), strict=True):
        tally.take(question, answer)
    code = await asyncio.to_thread(site.server.wait, EXIT_SECONDS)
    if code != 0:
        how = f"has not ended after {EXIT_SECONDS:g} seconds" if code is None else f"exited with {code}"
        tally.problems[f"the process {how}: {site.server.last_words()}"] += 1
    return tally


async def until_all_run(site: Site, asked: list["asyncio.Task[Answer]"]) -> None:
    """Wait until the server has taken every request; some may have ended by then."""
    while True:
        metrics = await asyncio.to_thread(site.server.get, "/metrics")
        num_taken = gauge(metrics, "num_requests_running") + gauge(metrics, "num_requests_waiting")
        if num_taken + sum(task.done() for task in asked) >= len(asked):
            return
        await asyncio.sleep(POLL_SECONDS)


async def until_refused(site: Site, tally: Tally) -> None:
    """Ask until a request is refused, `EXIT_SECONDS` at most; what is answered before counts as any other answer."""
    deadline = time.monotonic() + EXIT_SECONDS
    while time.monotonic() < deadline:
        [question] = site.drawn(site.questions.short, 1)
        answer = await site.ask(question)
        if is_refusal(answer):
            return
        tally.take(question, answer)


def is_refusal(answer: Answer) -> bool:
    """Return whether a server took no request: the socket is closed, or it says that it is shutting down."""
    return answer.error is not None and answer.error.startswith(REFUSALS)
