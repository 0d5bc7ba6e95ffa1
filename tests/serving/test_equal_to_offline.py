"""The embedded model gives the same text through OpenAI's client as offline."""

import math
from itertools import product
from typing import Any

import pytest
from openai import OpenAI

from mini_vllm import LLM, SamplingParams, parse_lineup
from mini_vllm.engine.async_llm import AsyncLLM
from tests.serving.running import CHAT, COMPLETION, HELLO, MODEL, serving

STORY: Any = [{"role": "user", "content": "Tell me a story about Mina and a kite."}]
LIST: Any = [{"role": "user", "content": "List the words: red, blue, red, green."}]
PROMPT = "One day, a girl"

SETTINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"temperature": 0}, {}),
    ({"temperature": 1.6, "seed": 3}, {"temperature": 1.6, "seed": 3}),
    ({"seed": 21}, {"temperature": 1.0, "seed": 21}),
    ({"temperature": 2, "top_p": 0.9, "seed": 5}, {"temperature": 2.0, "top_p": 0.9, "seed": 5}),
    ({"temperature": 2, "extra_body": {"top_k": 3}, "seed": 5}, {"temperature": 2.0, "top_k": 3, "seed": 5}),
    ({"temperature": 2, "extra_body": {"top_k": -1}, "seed": 5}, {"temperature": 2.0, "seed": 5}),
    ({"temperature": 0, "presence_penalty": 2}, {"presence_penalty": 2.0}),
    ({"temperature": 0, "frequency_penalty": -2}, {"frequency_penalty": -2.0}),
    ({"temperature": 0, "extra_body": {"repetition_penalty": 1.8}}, {"repetition_penalty": 1.8}),
    ({"temperature": 0, "logit_bias": {"300": 100}}, {"logit_bias": {300: 100.0}}),
    ({"temperature": 0, "stop": ["tea", " plum"]}, {"stop": ("tea", " plum")}),
    ({"temperature": 0, "extra_body": {"ignore_eos": True}}, {"ignore_eos": True}),
    ({"temperature": 0, "extra_body": {"min_tokens": 30}}, {"min_tokens": 30}),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "params"), SETTINGS, ids=[str(fields) for fields, _ in SETTINGS])
def test_a_chat_has_the_offline_text(
    embedded: OpenAI, offline: LLM, fields: dict[str, Any], params: dict[str, Any], stream: bool
) -> None:
    (wanted,) = offline.chat(LIST, SamplingParams(max_tokens=30, **params))
    answer: Any = embedded.chat.completions.create(model=MODEL, messages=LIST, max_tokens=30, stream=stream, **fields)
    if stream:
        chunks = list(answer)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        reason = chunks[-1].choices[0].finish_reason
    else:
        text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
    assert (text, reason) == (wanted.outputs[0].text, wanted.outputs[0].finish_reason)


def test_the_settings_of_the_cases_matter(offline: LLM) -> None:
    texts = [offline.chat(LIST, SamplingParams(max_tokens=30, **params))[0].outputs[0].text for _, params in SETTINGS]
    assert len(set(texts)) == len(SETTINGS), "a case with the text of another compares nothing"


def test_each_of_n_choices_has_its_own_seed(embedded: OpenAI, offline: LLM) -> None:
    params = [SamplingParams(max_tokens=20, temperature=1.0, seed=seed) for seed in (40, 41, 42)]
    wanted = [output.outputs[0].text for output in offline.generate([PROMPT] * 3, params)]
    answer = embedded.completions.create(model=MODEL, prompt=PROMPT, max_tokens=20, seed=40, n=3)
    assert [choice.text for choice in answer.choices] == wanted
    assert len(set(wanted)) == 3


def test_without_a_seed_choices_differ(embedded: OpenAI) -> None:
    answer = embedded.completions.create(model=MODEL, prompt=PROMPT, max_tokens=20, temperature=1.5, n=6)
    assert len({choice.text for choice in answer.choices}) > 1


def test_logprobs_of_a_chat(embedded: OpenAI, offline: LLM) -> None:
    (wanted,) = offline.chat(STORY, SamplingParams(max_tokens=12, logprobs=3))
    answer: Any = embedded.chat.completions.create(
        model=MODEL, messages=STORY, max_tokens=12, temperature=0, logprobs=True, top_logprobs=3
    )
    tokens, rows = answer.choices[0].logprobs.content, wanted.outputs[0].logprobs
    assert rows is not None
    assert [token.logprob for token in tokens] == [
        pytest.approx(row[token_id].logprob, abs=1e-4)
        for token_id, row in zip(wanted.outputs[0].token_ids, rows, strict=True)
        if row
    ]
    assert {len(token.top_logprobs) for token in tokens} == {3}
    assert all(token.top_logprobs[0].logprob == token.logprob for token in tokens), "greedy takes the likeliest"
    assert "".join(token.token for token in tokens).split() == wanted.outputs[0].text.split()


def test_logprobs_of_a_completion(embedded: OpenAI) -> None:
    answer = embedded.completions.create(model=MODEL, prompt=PROMPT, max_tokens=12, temperature=1.0, seed=2, logprobs=2)
    logprobs: Any = answer.choices[0].logprobs
    assert len(logprobs.tokens) == 12
    assert all(token in top for token, top in zip(logprobs.tokens, logprobs.top_logprobs, strict=True))
    assert all(2 <= len(top) <= 3 for top in logprobs.top_logprobs)
    assert all(sum(math.exp(value) for value in top.values()) <= 1.0001 for top in logprobs.top_logprobs)


@pytest.mark.parametrize(
    ("fields", "top"), [({}, None), ({"logprobs": True}, [[]] * 5), ({"logprobs": True, "top_logprobs": 0}, [[]] * 5)]
)
def test_logprobs_are_returned_only_as_far_as_requested(embedded: OpenAI, fields: Any, top: Any) -> None:
    answer: Any = embedded.chat.completions.create(model=MODEL, messages=STORY, max_tokens=5, **fields)
    logprobs = answer.choices[0].logprobs
    assert (logprobs and [token.top_logprobs for token in logprobs.content]) == top


def test_a_grammar_that_turns_out_too_large_is_the_client_s_mistake() -> None:
    with serving(AsyncLLM(LLM(lineup=parse_lineup("solution:1-9")).engine)) as server:
        for stream, (path, prompt) in product(
            [False, True], [(CHAT, {"messages": HELLO}), (COMPLETION, {"prompt": "a"})]
        ):
            status, error = server.post(path, **prompt, stream=stream, structured_outputs={"regex": "[ab]*a[ab]{13}"})
            assert (status, error["param"]) == (400, "structured_outputs")
            assert "cannot be compiled: the regex needs more than 4,000 states" in error["message"]
