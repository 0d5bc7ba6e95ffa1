"""Every kind of request that must be refused, and the error message expected for it."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.sampling_params import SamplingParams

MakePrompt = Callable[[LLMEngine], str | list[int]]


def short(engine: LLMEngine) -> list[int]:
    return [1, 2, 3][: engine.scheduler.max_model_len - 1]


def too_long(engine: LLMEngine) -> list[int]:
    return [1] * engine.scheduler.max_model_len


@dataclass(frozen=True)
class BadRequest:
    """A prompt and settings, at least one of them wrong, and a pattern of the message."""

    message: str
    params: SamplingParams = SamplingParams()  # noqa: RUF009
    prompt: MakePrompt = short


def _temperature(value: float) -> BadRequest:
    message = f"temperature must be a finite number of at least 0, got {value}"
    return BadRequest(re.escape(message), SamplingParams(temperature=value))


def _top_p(value: float) -> BadRequest:
    return BadRequest(f"top_p must be over 0 and at most 1, got {value}", SamplingParams(top_p=value))


BAD_REQUESTS: dict[str, BadRequest] = {
    "empty prompt": BadRequest("the prompt is empty", prompt=lambda _: []),
    "empty text": BadRequest("the prompt is empty", prompt=lambda _: ""),
    "prompt too long": BadRequest(
        r"the prompt has (\d+) tokens, but at most max_model_len - 1 = (\d+)", prompt=too_long
    ),
    "no output tokens": BadRequest("max_tokens must be an integer of at least 1, got 0", SamplingParams(max_tokens=0)),
    "negative max_tokens": BadRequest(
        "max_tokens must be an integer of at least 1, got -4", SamplingParams(max_tokens=-4)
    ),
    "temperature nan": _temperature(math.nan),
    "temperature inf": _temperature(math.inf),
    "temperature negative": _temperature(-0.1),
    "top_p zero": _top_p(0.0),
    "top_p over one": _top_p(1.1),
    "top_p nan": _top_p(math.nan),
    "top_k negative": BadRequest(
        "top_k must be an integer of at least 1, or 0 for no limit, got -1", SamplingParams(top_k=-1)
    ),
    "stop empty": BadRequest("stop must not contain the empty string", SamplingParams(stop=("a", ""))),
    "stop a plain string": BadRequest(
        "stop must be a tuple of strings, got the string 'end'",
        SamplingParams(stop="end"),  # type: ignore[arg-type]
    ),
    "stop the empty plain string": BadRequest(
        "stop must be a tuple of strings, got the string ''",
        SamplingParams(stop=""),  # type: ignore[arg-type]
    ),
    "token over the vocabulary": BadRequest(
        "token id 1000 is not in the vocabulary, 0 to 999", prompt=lambda _: [1000]
    ),
    "token negative": BadRequest("token id -1 is not in the vocabulary, 0 to 999", prompt=lambda _: [-1]),
}


def add_bad(engine: LLMEngine, kind: str, known_id: str | None = None) -> str:
    """Add the bad request, or a good one under the id `known_id`, which is in use; return the error."""
    bad = BAD_REQUESTS[kind]
    if known_id is not None:
        _refused(
            engine,
            known_id,
            short(engine),
            SamplingParams(),
            f"request_id '{known_id}' belongs to an unfinished request",
        )
    return _refused(engine, "bad", bad.prompt(engine), bad.params, bad.message)


def _refused(engine: LLMEngine, request_id: str, prompt: str | list[int], params: SamplingParams, message: str) -> str:
    try:
        engine.add_request(request_id, prompt, params)
    except ValueError as error:
        if not re.search(message, str(error)):
            raise AssertionError(f"the message is {str(error)!r}, expected {message!r}") from error
        return str(error)
    raise AssertionError(f"accepted, expected the refusal {message!r}")
