"""Every kind of request that must be refused, and the error message expected for it."""

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.sampling_params import SamplingParams


def short(engine: LLMEngine) -> list[int]:
    return [1, 2, 3][: engine.scheduler.max_model_len - 1]


def too_long(engine: LLMEngine) -> list[int]:
    return [1] * engine.scheduler.max_model_len


class BadRequest(NamedTuple):
    """A prompt and settings, at least one of them wrong, and a pattern of the message."""

    message: str
    settings: Mapping[str, Any] = MappingProxyType({})
    prompt: Callable[[LLMEngine], str | list[int]] = short


def _refused(setting: str, legal: str, *values: float) -> dict[str, BadRequest]:
    """Return bad requests for illegal values of one setting."""
    return {
        f"{setting} {value!r}": BadRequest(re.escape(f"{setting} must be {legal}, got {value}"), {setting: value})
        for value in values
    }


BAD_REQUESTS: dict[str, BadRequest] = {
    "empty prompt": BadRequest("the prompt is empty", prompt=lambda _: []),
    "empty text": BadRequest("the prompt is empty", prompt=lambda _: ""),
    "prompt too long": BadRequest(
        r"the prompt has (\d+) tokens, but at most max_model_len - 1 = (\d+)", prompt=too_long
    ),
    **_refused("max_tokens", "an integer of at least 1", 0, -4),
    **_refused("temperature", "a finite number of at least 0", math.nan, math.inf, -0.1),
    **_refused("top_p", "over 0 and at most 1", 0.0, 1.1, math.nan),
    **_refused("top_k", "an integer of at least 1, or 0 for no limit", -1),
    "stop empty": BadRequest("stop must not contain the empty string", {"stop": ("a", "")}),
    "stop a plain string": BadRequest("stop must be a tuple of strings, got the string 'end'", {"stop": "end"}),
    "stop the empty plain string": BadRequest("stop must be a tuple of strings, got the string ''", {"stop": ""}),
    "token over the vocabulary": BadRequest(
        "token id 1000 is not in the vocabulary, 0 to 999", prompt=lambda _: [1000]
    ),
    "token negative": BadRequest("token id -1 is not in the vocabulary, 0 to 999", prompt=lambda _: [-1]),
}


def add_bad(engine: LLMEngine, kind: str, known_id: str | None = None) -> str:
    """Add the bad request, or first a good one under the id `known_id`, which is in use; return the error."""
    if known_id is not None:
        with pytest.raises(ValueError, match=f"request_id '{known_id}' belongs to an unfinished request"):
            engine.add_request(known_id, short(engine))
    bad = BAD_REQUESTS[kind]
    with pytest.raises(ValueError, match=bad.message) as refused:
        engine.add_request("bad", bad.prompt(engine), SamplingParams(**bad.settings))
    return str(refused.value)
