"""Every kind of request that must be refused, and the error message expected for it."""

import math
import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.sampling_params import SamplingParams

BAD_SETTINGS: tuple[tuple[dict[str, Any], str], ...] = (
    *(({"max_tokens": value}, f"max_tokens must be an integer of at least 1, got {value}") for value in (0, -4)),
    *(
        ({"temperature": value}, f"temperature must be finite and at least 0, got {value}")
        for value in (math.nan, math.inf, -0.1)
    ),
    *(({"top_p": value}, f"top_p must be greater than 0 and at most 1, got {value}") for value in (0.0, 1.1, math.nan)),
    ({"top_k": -1}, "top_k must be an integer of at least 1, or 0 for no limit, got -1"),
    ({"stop": ("a", "")}, "stop must not contain the empty string"),
    ({"stop": "end"}, "stop must be a tuple of strings, got the string 'end'"),
    ({"stop": ""}, "stop must be a tuple of strings, got the string ''"),
)
BAD_PROMPTS: tuple[tuple[Callable[[LLMEngine], str | list[int]], str], ...] = (
    (lambda engine: [], "the prompt is empty"),
    (lambda engine: "", "the prompt is empty"),
    (
        lambda engine: [1] * engine.scheduler.max_model_len,
        "the prompt has {length} tokens, but it may have at most max_model_len - 1 = {most}",
    ),
    (lambda engine: [1000], "token id 1000 is not in the vocabulary, which is 0 to 999"),
    (lambda engine: [-1], "token id -1 is not in the vocabulary, which is 0 to 999"),
    (lambda engine: cast(Any, [1.0]), "a prompt must be text or a list of integers, got the token id 1.0"),
    (lambda engine: [1, True], "a prompt must be text or a list of integers, got the token id True"),
    (lambda engine: cast(Any, None), "a prompt must be text or a list of integers, got None"),
    (lambda engine: cast(Any, b"ab"), "a prompt must be text or a list of integers, got b'ab'"),
)
BAD_NAMED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"priority": "high"}, "priority must be an integer, got 'high'"),
    ({"priority": 1.5}, "priority must be an integer, got 1.5"),
    ({"cache_salt": 3}, "cache_salt must be text, got 3"),
    ({"tenant": 3}, "tenant must be text, got 3"),
)
NUM_KINDS = len(BAD_SETTINGS) + len(BAD_PROMPTS) + len(BAD_NAMED)


def add_bad(engine: LLMEngine, kind: int, known_id: str | None = None) -> None:
    """Add a bad request, after a good one whose id `known_id` is already in use; both must be refused."""
    length = engine.scheduler.max_model_len
    good: list[int] = [1, 2, 3][: length - 1]
    if known_id is not None:
        with pytest.raises(ValueError, match=f"request_id '{known_id}' belongs to an unfinished request"):
            engine.add_request(known_id, good)
    prompt: str | list[int] = good
    settings: dict[str, Any] = {}
    named: dict[str, Any] = {}
    if kind < len(BAD_SETTINGS):
        settings, message = BAD_SETTINGS[kind]
    elif (place := kind - len(BAD_SETTINGS)) < len(BAD_PROMPTS):
        make_prompt, message = BAD_PROMPTS[place]
        prompt = make_prompt(engine)
    else:
        named, message = BAD_NAMED[place - len(BAD_PROMPTS)]
    with pytest.raises(ValueError, match=re.escape(message.format(length=length, most=length - 1))):
        engine.add_request("bad", prompt, SamplingParams(**settings), **named)
