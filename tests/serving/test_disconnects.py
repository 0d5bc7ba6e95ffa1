"""When a client leaves, its requests end: no step is spent on them, and every block is free again."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.serving.running import CHAT, MODEL, RawConnection, ServerUnderTest, num_used_blocks, serving, wait_until
from tests.serving.test_openai_client import expected


@pytest.fixture(scope="module")
def server() -> Iterator[ServerUnderTest]:
    with serving() as server:
        yield server


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("stream", [True, False])
def test_before_the_first_token(server: ServerUnderTest, stream: bool, n: int) -> None:
    [connection] = server.ask_paused(stream=stream, n=n)
    connection.close()
    server.wait_for_waiting(0)  # even though no step has run
    server.llm.resume()
    server.wait_until_idle()


@pytest.mark.parametrize("n", [1, 3])
def test_in_the_middle_of_a_stream(server: ServerUnderTest, n: int) -> None:
    with RawConnection(server) as connection:
        connection.ask(stream=True, n=n, max_tokens=2000)
        connection.read_until(b'"content":"')
    server.wait_until_idle()


def test_while_a_whole_answer_is_generated(server: ServerUnderTest) -> None:
    [connection] = server.ask_paused(max_tokens=500)
    server.step_once(3)
    assert server.call(num_used_blocks) > 0
    connection.close()
    wait_until(lambda: not server.call(lambda engine: engine.scheduler.requests), "the request is gone")
    server.llm.resume()
    server.wait_until_idle()


def test_in_the_middle_of_a_body(server: ServerUnderTest) -> None:
    with RawConnection(server) as connection:
        connection.begin(CHAT, "Content-Length: 100", body=b'{"mess')
    server.wait_until_idle()


def test_a_third_of_many_streams_may_hang_up(server: ServerUnderTest) -> None:
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
    server.wait_until_idle()


def test_pipelined_requests_are_answered_in_turn(server: ServerUnderTest) -> None:
    with RawConnection(server) as connection:
        for prompt in (b"a", b"b", b"c"):
            connection.post("/tokenize", b'{"prompt": "%s"}' % prompt)
        assert [connection.read_answer()[2]["tokens"] for _ in range(3)] == [[97], [98], [99]]
