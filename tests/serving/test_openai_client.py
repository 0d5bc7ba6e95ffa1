"""OpenAI's client, unmodified, on the fake model: the shape of every answer."""

from typing import Any

import openai
import pytest
from openai import OpenAI

from mini_vllm.core.tokenizer import ByteTokenizer
from mini_vllm.runner.fake_model_runner import LETTERS, fake_continuation
from tests.serving.running import HELLO, MODEL

TOKENIZER = ByteTokenizer()


def expected(prompt: str, num_tokens: int) -> str:
    return TOKENIZER.decode(fake_continuation(TOKENIZER.encode(prompt), num_tokens, LETTERS))


def expected_answer(messages: list[dict[str, str]], num_tokens: int) -> str:
    return TOKENIZER.decode(fake_continuation(TOKENIZER.apply_chat_template(messages), num_tokens, LETTERS))


def test_the_model_is_listed_and_shown(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).model_dump()["max_model_len"] == 2048


def test_another_model_does_not_exist(client: OpenAI) -> None:
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
def test_every_form_of_prompt_is_completed(client: OpenAI, prompt: Any, texts: list[str], n: int) -> None:
    completion = client.completions.create(model=MODEL, prompt=prompt, max_tokens=7, n=n)
    assert [choice.index for choice in completion.choices] == list(range(n * len(texts)))
    assert [choice.text for choice in completion.choices] == [expected(text, 7) for text in texts for _ in range(n)]
    assert {choice.finish_reason for choice in completion.choices} == {"length"}
    assert completion.usage is not None
    assert completion.usage.prompt_tokens == sum(map(len, texts))
    assert completion.usage.completion_tokens == 7 * n * len(texts)
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens


@pytest.mark.parametrize("prompt", ["abc", [97, 98, 99]])
def test_echo_repeats_the_prompt(client: OpenAI, prompt: Any) -> None:
    completion = client.completions.create(model=MODEL, prompt=prompt, max_tokens=4, echo=True)
    assert completion.choices[0].text == "abc" + expected("abc", 4)


def test_a_completion_has_16_tokens_by_default(client: OpenAI) -> None:
    completion = client.completions.create(model=MODEL, prompt="abc")
    assert completion.choices[0].text == expected("abc", 16)


def test_an_answer_may_use_the_whole_room_by_default(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x" * 1900}])
    assert answer.usage is not None
    assert answer.usage.total_tokens == 2048
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_chat_is_answered(client: OpenAI, limit: str) -> None:
    limits: Any = {limit: 9}
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, **limits)
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content == expected_answer(HELLO, 9)
    assert answer.id.startswith("chatcmpl-")
    assert answer.object == "chat.completion"


def test_text_parts_are_lines_of_the_message(client: OpenAI) -> None:
    parts: Any = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}], max_tokens=9)
    assert answer.choices[0].message.content == expected_answer([{"role": "user", "content": "one\ntwo"}], 9)


def test_an_answer_can_be_sent_back_as_a_message(client: OpenAI) -> None:
    first = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=9).choices[0].message
    again: Any = [*HELLO, first, {"role": "user", "content": "and?"}]
    answer = client.chat.completions.create(model=MODEL, messages=again, max_tokens=9)
    said = [*HELLO, {"role": "assistant", "content": first.content or ""}, {"role": "user", "content": "and?"}]
    assert answer.choices[0].message.content == expected_answer(said, 9)


@pytest.mark.parametrize("with_end", [False, True])
def test_a_stop_string_ends_the_text(client: OpenAI, with_end: bool) -> None:
    text = expected("abc", 30)
    answer = client.completions.create(
        model=MODEL, prompt="abc", max_tokens=30, stop=text[5:8], extra_body={"include_stop_str_in_output": with_end}
    )
    choice, end = answer.choices[0], text.index(text[5:8])
    assert choice.text == text[: end + 3 if with_end else end]
    assert choice.finish_reason == "stop"
    assert choice.model_dump()["stop_reason"] == text[5:8]


def test_a_stop_string_among_the_first_min_tokens_ends_nothing(client: OpenAI) -> None:
    text = expected("abc", 30)
    answer = client.completions.create(
        model=MODEL, prompt="abc", max_tokens=30, stop=[text[:2]], extra_body={"min_tokens": 30}
    )
    assert answer.choices[0].text == text


def test_a_stop_token_ends_the_text(client: OpenAI) -> None:
    text = expected("abc", 30)
    answer = client.completions.create(
        model=MODEL, prompt="abc", max_tokens=30, extra_body={"stop_token_ids": [ord(text[6])]}
    )
    assert answer.choices[0].text == text[: text.index(text[6])]
    assert answer.choices[0].model_dump()["stop_reason"] == ord(text[6])


def test_shared_prompts_are_found_in_the_cache_unless_their_salts_differ(client: OpenAI) -> None:
    def cached(salt: str) -> int | None:
        answer = client.completions.create(model=MODEL, prompt="p" * 100, max_tokens=1, extra_body={"cache_salt": salt})
        assert answer.usage is not None
        assert answer.usage.prompt_tokens_details is not None
        return answer.usage.prompt_tokens_details.cached_tokens

    assert [cached("one"), cached("one"), cached("two")] == [0, 96, 0]


def test_fields_that_are_null_count_as_left_out(client: OpenAI) -> None:
    nothing = dict.fromkeys(("stop", "seed", "n", "temperature", "tools", "logit_bias", "stream_options", "user"))
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=3, extra_body=nothing)
    assert answer.choices[0].message.content == expected_answer(HELLO, 3)


def test_all_fields_of_the_api_together(client: OpenAI) -> None:
    ours = {
        "top_k": 5,
        "repetition_penalty": 1.1,
        "min_tokens": 1,
        "ignore_eos": True,
        "cache_salt": "s",
        "priority": 0,
    }
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=6, temperature=0.5, top_p=0.9, seed=7, n=2, user="me",
        presence_penalty=0.1, frequency_penalty=0.1, logit_bias={"97": 1}, response_format={"type": "text"},
        extra_body=ours,
    )  # fmt: skip
    assert len(answer.choices) == 2
