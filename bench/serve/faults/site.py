"""The server under test, and what must hold of it whenever nobody asks it anything."""

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from bench.serve.answer import Answer
from bench.serve.completion import complete
from bench.serve.endpoint import Endpoint
from bench.serve.faults.questions import Question, Questions
from bench.serve.faults.sizes import Sizes
from bench.serve.faults.tally import Tally
from bench.serve.server_process import Resources, ServerProcess

SETTLE_SECONDS = 60.0
POLL_SECONDS = 0.1
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")


@dataclass(slots=True)
class Site:
    """A running server, the questions for it, and what it held when it had been warmed up."""

    server: ServerProcess
    questions: Questions
    sizes: Sizes
    rng: Random = field(default_factory=lambda: Random("faults"))
    baseline: Resources | None = None

    @property
    def endpoint(self) -> Endpoint:
        return self.server.endpoint

    async def ask(self, question: Question) -> Answer:
        """Send a question and read its answer to the end."""
        return await complete(self.endpoint, question.request, time.perf_counter())

    async def ask_all(
        self, tally: Tally, questions: Iterable[Question], at_once: int, *, may_fail: bool = False
    ) -> None:
        """Ask every question, so many at once, and count the answers."""
        rest = iter(questions)

        async def work() -> None:
            for question in rest:
                tally.take(question, await self.ask(question), may_fail=may_fail)

        await asyncio.gather(*(work() for _ in range(at_once)))

    def drawn(self, questions: Sequence[Question], count: int) -> list[Question]:
        """Return `count` of the questions, drawn with replacement."""
        return self.rng.choices(questions, k=count)

    async def warm_up(self, *, may_fail: bool) -> None:
        """Make the server create all the threads that it ever will, then note what it holds.

        Raises `ValueError` if it answers differently from the offline engine.
        """
        tally = Tally()
        for _ in range(2):
            await self.ask_all(tally, self.questions.usual, at_once=len(self.questions.usual), may_fail=may_fail)
        if tally.problems:
            raise ValueError(f"the server does not even answer quietly: {next(iter(tally.problems))}")
        await self.settle()
        self.baseline = await self._steady_resources()

    async def settle(self) -> list[str]:
        """Wait until the server is as empty as it was; return what is still not so after `SETTLE_SECONDS`."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (left := await asyncio.to_thread(self._left)) and time.monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS)
        return left

    async def _steady_resources(self) -> Resources:
        """Return what the server holds when its open files no longer change."""
        before, now = None, self.server.resources()
        while before is None or now.num_fds != before.num_fds:
            await asyncio.sleep(1.0)
            before, now = now, self.server.resources()
        return now

    def _left(self) -> list[str]:
        try:
            metrics = self.server.get("/metrics")
        except OSError as error:
            return [f"/metrics does not answer: {error}"]
        left = [f"{name} is {value:g}" for name in GAUGES if (value := gauge(metrics, name))]
        now, before = self.server.resources(), self.baseline
        if before is not None and now.num_threads > before.num_threads:
            left.append(f"{now.num_threads} threads, {before.num_threads} before")
        if before is not None and now.num_fds > before.num_fds:
            left.append(f"{now.num_fds} open files, {before.num_fds} before")
        return left


def gauge(metrics: str, name: str) -> float:
    """Return a gauge's value in the text of `/metrics`. Raises `ValueError` if it is not there."""
    found = re.search(rf"^vllm:{name}(?:{{[^}}]*}})? (\S+)$", metrics, re.MULTILINE)
    if found is None:
        raise ValueError(f"/metrics has no vllm:{name}")
    return float(found[1])
