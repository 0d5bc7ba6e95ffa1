"""OpenAI's client, unmodified: streams, one after the other and many at once."""

import asyncio
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI

from serving.server import RunningServer
from tests.serving.running import HELLO, MODEL, wait_until_idle
from tests.serving.test_openai_client import expected, expected_answer


def test_a_chat_begins_with_the_role_and_ends_with_the_reason(client: OpenAI) -> None:
    chunks = list(client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=20, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert {chunk.choices[0].delta.role for chunk in chunks[1:]} == {None}
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == expected_answer(HELLO, 20)
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert chunks[-1].choices[0].delta.content is None
    assert len({(chunk.id, chunk.created, chunk.model, chunk.object) for chunk in chunks}) == 1


@pytest.mark.parametrize("route", ["chat", "completions"])
@pytest.mark.parametrize("n", [1, 3])
def test_the_usage_comes_last_and_without_choices(client: OpenAI, route: str, n: int) -> None:
    options: Any = {"model": MODEL, "max_tokens": 5, "n": n, "stream": True, "stream_options": {"include_usage": True}}
    stream = (
        client.chat.completions.create(messages=HELLO, **options)
        if route == "chat"
        else client.completions.create(prompt="hello", **options)
    )
    *others, last = list(stream)
    assert [chunk.usage for chunk in others] == [None] * len(others)
    assert last.choices == []
    assert last.usage.completion_tokens == 5 * n


def test_a_stream_without_the_option_has_no_usage(client: OpenAI) -> None:
    chunks = list(client.completions.create(model=MODEL, prompt="abc", max_tokens=5, stream=True))
    assert all(chunk.choices for chunk in chunks)


@pytest.mark.parametrize(("prompt", "n"), [("abc", 4), (["abc", "de"], 2), ([[97, 98], [99]], 3)])
def test_choices_are_told_apart_by_their_index(client: OpenAI, prompt: Any, n: int) -> None:
    options: Any = {"model": MODEL, "prompt": prompt, "n": n, "max_tokens": 30}
    whole = client.completions.create(**options)
    texts = dict.fromkeys(range(len(whole.choices)), "")
    for chunk in client.completions.create(stream=True, **options):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert list(texts.values()) == [choice.text for choice in whole.choices]


def test_echo_comes_first(client: OpenAI) -> None:
    stream = client.completions.create(model=MODEL, prompt=["abc", "de"], max_tokens=9, echo=True, stream=True)
    texts = ["", ""]
    for chunk in stream:
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == ["abc" + expected("abc", 9), "de" + expected("de", 9)]


def test_nothing_of_a_stop_string_is_shown(client: OpenAI) -> None:
    text = expected("abc", 60)
    stream = client.completions.create(model=MODEL, prompt="abc", max_tokens=60, stop=text[40:44], stream=True)
    chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks) == text[: text.index(text[40:44])]
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_logprobs_of_a_stream_are_those_of_the_whole(client: OpenAI) -> None:
    options: Any = {"model": MODEL, "messages": HELLO, "max_tokens": 20, "logprobs": True, "top_logprobs": 2}
    whole = client.chat.completions.create(**options).choices[0].logprobs
    streamed = [
        token
        for chunk in client.chat.completions.create(stream=True, **options)
        for token in (chunk.choices[0].logprobs.content if chunk.choices[0].logprobs else [])
    ]
    assert whole is not None
    assert streamed == whole.content


def test_text_offsets_of_a_stream_go_on(client: OpenAI) -> None:
    stream = client.completions.create(model=MODEL, prompt="abc", max_tokens=20, logprobs=1, stream=True)
    offsets = [offset for chunk in stream for offset in (_offsets(chunk) or [])]
    assert offsets == list(range(20))


def _offsets(chunk: Any) -> list[int] | None:
    logprobs = chunk.choices[0].logprobs
    return None if logprobs is None else logprobs.text_offset


def test_a_stream_arrives_while_it_is_generated(fake_server: RunningServer, client: OpenAI) -> None:
    wait_until_idle(fake_server.llm)
    stream = client.completions.create(model=MODEL, prompt="abc", max_tokens=2000, stream=True)
    first = next(iter(stream))
    assert first.choices[0].finish_reason is None
    assert fake_server.llm.num_unfinished_requests == 1
    stream.close()


def test_many_streams_at_once(fake_server: RunningServer) -> None:
    async def text_of(client: AsyncOpenAI, prompt: str) -> str:
        stream = await client.completions.create(model=MODEL, prompt=prompt, max_tokens=40, stream=True)
        return "".join([chunk.choices[0].text async for chunk in stream])

    async def run() -> list[str]:
        async with AsyncOpenAI(base_url=fake_server.base_url, api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(text_of(client, f"prompt {number}") for number in range(40)))

    assert asyncio.run(run()) == [expected(f"prompt {number}", 40) for number in range(40)]


def test_many_whole_answers_at_once(fake_server: RunningServer) -> None:
    async def run() -> list[str | None]:
        async with AsyncOpenAI(base_url=fake_server.base_url, api_key="none", max_retries=0) as client:
            chats: Any = [[{"role": "user", "content": f"chat {number}"}] for number in range(40)]
            answers = await asyncio.gather(
                *(client.chat.completions.create(model=MODEL, messages=chat, max_tokens=20) for chat in chats)
            )
            return [answer.choices[0].message.content for answer in answers]

    chats = [[{"role": "user", "content": f"chat {number}"}] for number in range(40)]
    assert asyncio.run(run()) == [expected_answer(chat, 20) for chat in chats]
