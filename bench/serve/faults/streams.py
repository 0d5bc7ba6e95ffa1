"""Many streams, clients that hang up, clients that do not read, and very many short requests."""

import asyncio
import socket
import time
from contextlib import suppress
from typing import Any

from bench.serve.answer import Answer, EventStream
from bench.serve.completion import TIMEOUT, connect
from bench.serve.faults.questions import Question
from bench.serve.faults.site import Site
from bench.serve.faults.tally import Tally
from bench.serve.http_exchange import BrokenAnswerError, HttpExchange

SHARE_THAT_HANGS_UP = 0.3
LONGEST_SILENCE = 2.0
SMALL_BUFFER, SMALL_SEGMENT = 4096, 536
SHORT_AT_ONCE = 128
NUM_BESIDE = 20


async def hang_ups(site: Site) -> Tally:
    """Open all streams at once; 30% of the clients hang up at a random moment, before the first token or after."""
    tally = Tally()
    questions = site.drawn(site.questions.usual, site.sizes.streams)
    num_leaving = round(SHARE_THAT_HANGS_UP * len(questions))
    leaving = [hang_up(site, tally, question) for question in questions[:num_leaving]]
    staying = site.ask_all(tally, questions[num_leaving:], at_once=len(questions) - num_leaving)
    await asyncio.gather(*leaving, staying)
    return tally


async def hang_up(site: Site, tally: Tally, question: Question) -> None:
    """Leave one stream after a random part of its text, or after a random time if none was chosen."""
    answer, num_parts = Answer(), site.rng.randrange(question.request.max_tokens)
    events, has_enough = EventStream(answer, time.perf_counter()), asyncio.Event()

    def take(data: bytes) -> None:
        events.feed(data)
        if len(answer.token_times) >= num_parts > 0:
            has_enough.set()

    try:
        http = await connect(site.endpoint, site.endpoint.post(question.request), take)
        enough = asyncio.create_task(has_enough.wait())
        longest = TIMEOUT if num_parts else site.rng.uniform(0.0, LONGEST_SILENCE)
        await first_of(enough, http.finished, timeout=longest)
        enough.cancel()
        if http.finished.done():
            http.finished.result()
        http.close()
        with suppress(BrokenAnswerError):
            await http.finished
    except (OSError, BrokenAnswerError) as error:
        tally.problems[f"a stream ended before the client left: {error}"] += 1
    tally.leave(question, events.text)


async def first_of(*futures: "asyncio.Future[Any]", timeout: float = TIMEOUT) -> None:
    """Wait until one of them is done, or for `timeout` seconds."""
    await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


async def slow_readers(site: Site) -> Tally:
    """Let some clients stop reading long answers; others must be answered meanwhile, and then the slow ones wholly."""
    tally = Tally()
    readers = [SlowReader(site, question) for question in site.questions.long]
    await asyncio.gather(*(reader.begin() for reader in readers))
    await site.ask_all(tally, site.drawn(site.questions.usual, NUM_BESIDE), at_once=NUM_BESIDE)
    for reader in readers:
        await reader.end(tally)
    return tally


class SlowReader:
    """A client with little room for what arrives, which reads the first part of its answer, and later the rest."""

    def __init__(self, site: Site, question: Question) -> None:
        self.question, self.endpoint = question, site.endpoint
        self.answer, self.has_begun = Answer(), asyncio.Event()
        self.events = EventStream(self.answer, time.perf_counter())
        self.http: HttpExchange | None = None

    async def begin(self) -> None:
        """Read the first part, then stop reading."""
        request, sock = self.endpoint.post(self.question.request), narrow_socket()
        http = self.http = await connect(self.endpoint, request, self._take, sock)
        assert http.transport is not None
        begun = asyncio.create_task(self.has_begun.wait())
        await first_of(begun, http.finished)
        begun.cancel()
        if not http.finished.done():
            http.transport.pause_reading()

    async def end(self, tally: Tally) -> None:
        """Read the rest."""
        assert self.http is not None
        assert self.http.transport is not None
        if not self.http.finished.done():
            self.http.transport.resume_reading()
        try:
            await self.http.finished
            self.events.finish()
        except BrokenAnswerError as error:
            self.answer.error = str(error)
        tally.take(self.question, self.answer)

    def _take(self, data: bytes) -> None:
        self.events.feed(data)
        self.has_begun.set()


def narrow_socket() -> socket.socket:
    """Return a socket that takes little at a time: without it the systems on both ends hold a whole answer."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    if hasattr(socket, "TCP_MAXSEG"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SMALL_SEGMENT)
    return sock


async def short_requests(site: Site) -> Tally:
    """Ask very many short questions, `SHORT_AT_ONCE` at once, each on a connection of its own."""
    tally = Tally()
    await site.ask_all(tally, site.drawn(site.questions.short, site.sizes.short_requests), SHORT_AT_ONCE)
    return tally
