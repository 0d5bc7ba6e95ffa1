"""What the router compares: the prefix of a body's prompt, and pages of metrics made one."""

import pytest

from serving.router.front import merged_page
from serving.router.prompt_prefix import prefix_of

SYSTEM = {"role": "system", "content": "You are a helpful assistant. " * 8}


def chat(*contents: str, **fields: object) -> dict[str, object]:
    roles = ("user", "assistant")
    turns = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
    return {"messages": [SYSTEM, *turns], **fields}


def shared(one: list[int], other: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def test_a_turn_begins_with_the_whole_conversation_before_it() -> None:
    first, second = prefix_of(chat("x" * 200)), prefix_of(chat("x" * 200, "an answer", "y" * 300))
    assert len(first) == 6
    assert second[: len(first)] == first
    assert len(second) > len(first) + 4


def test_two_chats_share_what_they_have_in_common() -> None:
    assert shared(prefix_of(chat("a" * 300)), prefix_of(chat("b" * 300))) == 3


@pytest.mark.parametrize("make", [lambda text: text, lambda text: [text, "another"], lambda text: list(text.encode())])
def test_prompts_as_text_or_tokens(make: object) -> None:
    one, longer = (prefix_of({"prompt": make("word " * n)}) for n in (40, 60))  # type: ignore[operator]
    assert one
    assert longer[: len(one)] == one
    assert shared(one, prefix_of({"prompt": make("other " * 40)})) == 0  # type: ignore[operator]


def test_salts_keep_prompts_apart() -> None:
    plain, salted = (prefix_of(chat("a" * 300, cache_salt=salt)) for salt in (None, "blue"))
    assert len(plain) == len(salted)
    assert not set(plain) & set(salted)


NO_PROMPTS: list[object] = [None, 3, [], {}, {"prompt": 3}, {"prompt": []}, {"prompt": [[]]}, {"prompt": [1.5] * 40}]
NO_PROMPTS += [{"messages": "text"}, {"messages": [3, None]}, {"messages": [{"content": [{"type": "text"}]}]}]


@pytest.mark.parametrize("body", [*NO_PROMPTS, {"prompt": None, "cache_salt": {}}])
def test_a_body_without_a_prompt_has_no_prefix(body: object) -> None:
    assert prefix_of(body) == []


def test_the_metrics_of_all_replicas_are_one_page() -> None:
    page = (
        "# HELP vllm:prompt_tokens_total Tokens.\n# TYPE vllm:prompt_tokens_total counter\n"
        'vllm:prompt_tokens_total{engine="0",model_name="m"} %d.0\n'
        "# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0",model_name="m"} 1.0\n'
    )
    lines = merged_page({0: page % 5, 2: page % 7}).decode().splitlines()
    assert 'vllm:prompt_tokens_total{engine="0",model_name="m"} 5.0' in lines
    assert 'vllm:prompt_tokens_total{engine="2",model_name="m"} 7.0' in lines
    assert sum(line.startswith("# TYPE vllm:prompt_tokens_total counter") for line in lines) == 1
    assert sum("num_requests_running{" in line for line in lines) == 2
