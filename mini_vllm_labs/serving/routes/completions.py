"""Serves `/v1/completions`, which continues texts. (vLLM: `entrypoints/openai/completion/{protocol,serving}.py`.)"""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field, PlainValidator

from mini_vllm.sampling_params import MAX_LOGPROBS
from mini_vllm_labs.serving.answer_format import COMPLETION
from mini_vllm_labs.serving.errors import invalid
from mini_vllm_labs.serving.generate_request import TextChoice, choices_of
from mini_vllm_labs.serving.routes.common import generate_router
from mini_vllm_labs.serving.routes.fields import SamplingFields, shown
from mini_vllm_labs.serving.served_model import ServedModel

Prompt = str | list[int]
DEFAULT_MAX_TOKENS = 16  # as in OpenAI's API and vLLM
MAX_PROMPTS = 4096


def prompts_of(value: object) -> list[Prompt]:
    """Return the prompts in a field. Raises `ValueError` unless it has one of the four legal forms."""
    prompts = [value] if isinstance(value, str) or _is_token_ids(value) else value
    if isinstance(prompts, list) and len(prompts) > MAX_PROMPTS:
        raise ValueError(f"must have at most {MAX_PROMPTS:,} prompts, got {len(prompts):,}")
    if isinstance(prompts, list) and prompts:
        if all(isinstance(prompt, str) for prompt in prompts) or all(_is_token_ids(prompt) for prompt in prompts):
            return prompts
    raise ValueError(f"must be a non-empty string, a list of token ids, or a list of either, got {shown(value)}")


def _is_token_ids(value: object) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(type(token_id) is int and token_id >= 0 for token_id in value)
    )


class CompletionRequest(SamplingFields):
    """One or more texts that a client wants completed."""

    prompt: Annotated[list[Prompt], PlainValidator(prompts_of)]
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    suffix: Literal[""] | None = None


def completions_router(served: ServedModel) -> APIRouter:
    return generate_router(served, "/v1/completions", COMPLETION, CompletionRequest, texts_of)


async def texts_of(body: CompletionRequest, served: ServedModel) -> list[TextChoice]:
    """Return the texts to generate for a request body. Raises `ApiError` if this server does not support a field's
    value."""
    if body.echo and body.logprobs is not None:
        raise invalid("the server does not return logprobs of prompts: leave out either logprobs or echo", "logprobs")
    n, max_choices = body.n or 1, served.settings.max_choices
    if n * len(body.prompt) > max_choices:
        raise invalid(f"n times the number of prompts must be at most {max_choices}, got {n * len(body.prompt)}", "n")
    max_tokens = DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens
    params = body.sampling_params(max_tokens, body.logprobs)
    choices = list[TextChoice]()
    for prompt in body.prompt:
        await asyncio.sleep(0)  # many short prompts take as long as one long prompt
        if isinstance(prompt, str):
            served.require_room([prompt], max_tokens)
            text, token_ids = prompt, await served.encode(prompt)
        else:
            text = await asyncio.to_thread(served.llm.tokenizer.decode, prompt) if body.echo else ""
            token_ids = prompt
        choices += choices_of(token_ids, params, n, echo=text if body.echo else "")
    return choices
