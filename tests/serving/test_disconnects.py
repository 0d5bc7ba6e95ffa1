"""A client that goes away takes its requests with it: no step is spent on them, and every block is free again."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from serving.server import RunningServer
from tests.serving.running import (
    CHAT,
    MODEL,
    RawConnection,
    ask_paused,
    call,
    free_blocks,
    serving,
    step_once,
    wait_for_waiting,
    wait_until,
    wait_until_idle,
)
from tests.serving.test_openai_client import expected


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serving() as server:
        yield server


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("stream", [True, False])
def test_before_the_first_token(server: RunningServer, stream: bool, n: int) -> None:
    [connection] = ask_paused(server, stream=stream, n=n)
    connection.close()
    wait_for_waiting(server.llm, 0)  # although no step was taken
    server.llm.resume()
    wait_until_idle(server.llm)


@pytest.mark.parametrize("n", [1, 3])
def test_in_the_middle_of_a_stream(server: RunningServer, n: int) -> None:
    with RawConnection(server) as connection:
        connection.ask(stream=True, n=n, max_tokens=2000)
        connection.read_until(b'"content":"')
    wait_until_idle(server.llm)


def test_while_a_whole_answer_is_generated(server: RunningServer) -> None:
    [connection] = ask_paused(server, max_tokens=500)
    step_once(server, 3)
    assert call(server.llm, free_blocks) < call(server.llm, lambda engine: engine.scheduler.kv.num_usable_blocks)
    connection.close()
    wait_until(lambda: not call(server.llm, lambda engine: engine.scheduler.requests), "the request is gone")
    server.llm.resume()
    wait_until_idle(server.llm)


def test_in_the_middle_of_a_body(server: RunningServer) -> None:
    with RawConnection(server) as connection:
        connection.begin(CHAT, "Content-Length: 100", body=b'{"mess')
    wait_until_idle(server.llm)


def test_a_third_of_many_streams_hangs_up(server: RunningServer) -> None:
    async def read(client: AsyncOpenAI, number: int, leaves_after: float) -> str | None:
        prompt: Any = f"prompt {number}"
        stream = await client.completions.create(model=MODEL, prompt=prompt, max_tokens=60, stream=True)
        text = ""
        async for chunk in stream:
            text += chunk.choices[0].text
            if len(text) > leaves_after:
                await stream.close()
                return None
        return text

    async def run() -> list[str | None]:
        leaves = [random.Random(number).uniform(0, 50) if number % 3 == 0 else 1000.0 for number in range(90)]
        async with AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(read(client, number, after) for number, after in enumerate(leaves)))

    texts = asyncio.run(run())
    for number in (number for number in range(90) if number % 3):
        assert texts[number] == expected(f"prompt {number}", 60)
    wait_until_idle(server.llm)


def test_pipelined_requests_are_answered_in_turn(server: RunningServer) -> None:
    with RawConnection(server) as connection:
        for prompt in (b"a", b"b", b"c"):
            connection.post("/tokenize", b'{"prompt": "%s"}' % prompt)
        assert [connection.read_answer()[2]["tokens"] for _ in range(3)] == [[97], [98], [99]]
