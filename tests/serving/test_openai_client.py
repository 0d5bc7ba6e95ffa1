"""OpenAI's client, unmodified, on the fake model: the shape of every answer, whole and streamed."""

from typing import Any

import openai
import pytest
from openai import OpenAI

from mini_vllm.core.tokenizer import ByteTokenizer
from mini_vllm.runner.fake_model_runner import LETTERS, fake_continuation
from tests.serving.running import HELLO, MODEL, ServerUnderTest, serving

TOKENIZER = ByteTokenizer()
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def expected(prompt: str, num_tokens: int) -> str:
    return TOKENIZER.decode(fake_continuation(TOKENIZER.encode(prompt), num_tokens, LETTERS))


def expected_answer(messages: list[dict[str, str]], num_tokens: int) -> str:
    return TOKENIZER.decode(fake_continuation(TOKENIZER.apply_chat_template(messages), num_tokens, LETTERS))


def complete(client: OpenAI, stream: bool, **fields: Any) -> tuple[list[str], list[Any]]:
    """Return the text of every choice, and the last piece received for it."""
    answer: Any = client.completions.create(model=MODEL, stream=stream, **fields)
    texts, last = dict[int, str](), dict[int, Any]()
    for choice in (choice for piece in (answer if stream else [answer]) for choice in piece.choices):
        texts[choice.index], last[choice.index] = texts.get(choice.index, "") + choice.text, choice
    assert texts.keys() == set(range(len(texts)))
    return [texts[index] for index in range(len(texts))], [last[index] for index in range(len(texts))]


def test_the_model_is_listed_and_shown_and_no_other_exists(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).model_dump()["max_model_len"] == 2048
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("org/other")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        pytest.param("abc", ["abc"], id="a string"),
        pytest.param(["abc", "de"], ["abc", "de"], id="strings"),
        pytest.param([97, 98, 99], ["abc"], id="token ids"),
        pytest.param([[97, 98, 99], [100, 101]], ["abc", "de"], id="lists of token ids"),
    ],
)
@pytest.mark.parametrize("n", [1, 3])
@BOTH
def test_every_form_of_prompt_is_completed(client: OpenAI, prompt: Any, texts: list[str], n: int, stream: bool) -> None:
    found, last = complete(client, stream, prompt=prompt, max_tokens=30, n=n)
    assert found == [expected(text, 30) for text in texts for _ in range(n)]
    assert {choice.finish_reason for choice in last} == {"length"}


def test_the_usage_counts_a_prompt_once(client: OpenAI) -> None:
    usage = client.completions.create(model=MODEL, prompt=["abc", "de"], max_tokens=7, n=3).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (5, 42, 47)


@pytest.mark.parametrize("prompt", [["abc", "de"], [[97, 98, 99], [100, 101]]])
@BOTH
def test_echo_repeats_the_prompt(client: OpenAI, prompt: Any, stream: bool) -> None:
    texts, _ = complete(client, stream, prompt=prompt, max_tokens=4, echo=True)
    assert texts == ["abc" + expected("abc", 4), "de" + expected("de", 4)]


def test_a_completion_has_16_tokens_by_default(client: OpenAI) -> None:
    assert complete(client, False, prompt="abc")[0] == [expected("abc", 16)]


def test_an_answer_may_use_the_whole_room_by_default(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x" * 1900}])
    assert answer.usage is not None
    assert answer.usage.total_tokens == 2048
    assert answer.choices[0].finish_reason == "length"


def chat(client: OpenAI, messages: Any = HELLO, **fields: Any) -> Any:
    return client.chat.completions.create(model=MODEL, messages=messages, **fields).choices[0].message


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_chat_is_answered(client: OpenAI, limit: str) -> None:
    message = chat(client, **{limit: 9})
    assert (message.role, message.content) == ("assistant", expected_answer(HELLO, 9))


def test_text_parts_are_lines_of_the_message(client: OpenAI) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    message = chat(client, [{"role": "user", "content": parts}], max_tokens=9)
    assert message.content == expected_answer([{"role": "user", "content": "one\ntwo"}], 9)


def test_an_answer_can_be_sent_back_as_a_message(client: OpenAI) -> None:
    first, more = chat(client, max_tokens=9), {"role": "user", "content": "and?"}
    answer = chat(client, [*HELLO, first, more], max_tokens=9)
    assert answer.content == expected_answer([*HELLO, {"role": "assistant", "content": first.content}, more], 9)


@pytest.mark.parametrize("with_end", [False, True])
@BOTH
def test_a_stop_string_ends_the_text_and_nothing_of_it_is_shown(client: OpenAI, with_end: bool, stream: bool) -> None:
    text, more = expected("abc", 60), {"include_stop_str_in_output": with_end}
    stop = text[40:44]
    texts, [last] = complete(client, stream, prompt="abc", max_tokens=60, stop=stop, extra_body=more)
    assert texts == [text[: text.index(stop) + (4 if with_end else 0)]]
    assert (last.finish_reason, last.model_dump()["stop_reason"]) == ("stop", stop)


def test_a_stop_token_ends_the_text(client: OpenAI) -> None:
    text = expected("abc", 30)
    more = {"stop_token_ids": [ord(text[6])]}
    texts, [last] = complete(client, False, prompt="abc", max_tokens=30, extra_body=more)
    assert texts == [text[: text.index(text[6])]]
    assert last.model_dump()["stop_reason"] == ord(text[6])


def test_shared_prompts_are_found_in_the_cache_unless_their_salts_differ(client: OpenAI) -> None:
    def cached(salt: str) -> int | None:
        answer = client.completions.create(model=MODEL, prompt="p" * 100, max_tokens=1, extra_body={"cache_salt": salt})
        assert answer.usage is not None
        assert answer.usage.prompt_tokens_details is not None
        return answer.usage.prompt_tokens_details.cached_tokens

    assert [cached("one"), cached("one"), cached("two")] == [0, 96, 0]


def test_fields_that_are_null_count_as_left_out(client: OpenAI) -> None:
    nothing = dict.fromkeys(("stop", "seed", "n", "temperature", "tools", "logit_bias", "stream_options", "user"))
    assert chat(client, max_tokens=3, extra_body=nothing).content == expected_answer(HELLO, 3)


def test_all_fields_of_the_api_work_together(client: OpenAI) -> None:
    ours = {"top_k": 5, "repetition_penalty": 1.1, "min_tokens": 1, "ignore_eos": True, "cache_salt": "s"}
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=6, temperature=0.5, top_p=0.9, seed=7, n=2, user="me",
        presence_penalty=0.1, frequency_penalty=0.1, logit_bias={"97": 1}, response_format={"type": "text"},
        extra_body={"priority": 0, **ours},
    )  # fmt: skip
    assert len(answer.choices) == 2


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
    create: Any = client.chat.completions.create if route == "chat" else client.completions.create
    prompt = {"messages": HELLO} if route == "chat" else {"prompt": "hello"}
    *others, last = create(
        model=MODEL, max_tokens=5, n=n, stream=True, stream_options={"include_usage": True}, **prompt
    )
    assert [chunk.usage for chunk in others] == [None] * len(others)
    assert last.choices == []
    assert last.usage.completion_tokens == 5 * n


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


def test_text_offsets_of_a_stream_continue(client: OpenAI) -> None:
    stream = client.completions.create(model=MODEL, prompt="abc", max_tokens=20, logprobs=1, stream=True)
    # without this option, the stream has no usage event
    logprobs: list[Any] = [chunk.choices[0].logprobs for chunk in stream]
    assert [offset for one in logprobs if one is not None for offset in one.text_offset] == list(range(20))


def test_a_stream_arrives_while_it_is_generated(fake_server: ServerUnderTest, client: OpenAI) -> None:
    fake_server.wait_until_idle()
    stream = client.completions.create(model=MODEL, prompt="abc", max_tokens=2000, stream=True)
    first = next(iter(stream))
    assert first.choices[0].finish_reason is None
    assert fake_server.llm.num_unfinished_requests == 1
    stream.close()


def test_the_model_field_may_name_an_adapter() -> None:
    with serving(adapters=("sql",)) as server:
        client = server.client_of()
        assert [(one.id, one.model_dump()["parent"]) for one in client.models.list()] == [(MODEL, None), ("sql", MODEL)]
        names = (MODEL, "sql", "sql", MODEL)
        answers = [client.completions.create(model=name, prompt="abc" * 20, max_tokens=1) for name in names]
        assert [answer.model for answer in answers] == list(names)
        cached: list[Any] = [
            answer.model_dump()["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers
        ]
        assert cached == [0, 0, 48, 48]
        with pytest.raises(openai.NotFoundError, match="serves 'mini-vllm', 'sql'"):
            client.completions.create(model="law", prompt="abc")
