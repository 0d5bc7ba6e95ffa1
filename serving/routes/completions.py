"""`/v1/completions`: the continuation of texts. (vLLM: `entrypoints/openai/completion/{protocol,serving}.py`.)"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Literal
from uuid import uuid4

from fastapi import APIRouter
from pydantic import Field, PlainValidator

from mini_vllm.outputs import TokenLogprobs
from mini_vllm.sampling_params import MAX_LOGPROBS, SamplingParams
from serving.answer_format import COMPLETION
from serving.errors import error_of_engine, error_of_output, invalid
from serving.generate_request import TextChoice, choices_of
from serving.routes.common import generate_router
from serving.routes.fields import NotNegative, SamplingFields, shown
from serving.served_model import ServedModel

Prompt = str | list[int]
DEFAULT_MAX_TOKENS = 16  # OpenAI's, and vLLM's
BIAS, MAX_AT_ONCE = 100.0, 32


def prompts_of(value: object) -> list[Prompt]:
    """Return the prompts in a field. Raises `ValueError` unless it has one of the four legal forms."""
    prompts = [value] if isinstance(value, str) or _is_token_ids(value) else value
    if isinstance(prompts, list) and prompts:
        if all(isinstance(prompt, str) for prompt in prompts) or all(_is_token_ids(prompt) for prompt in prompts):
            return prompts
    raise ValueError(f"must be a string, a list of token ids, or a list of either, and not empty, got {shown(value)}")


def _is_token_ids(value: object) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(type(token_id) is int and token_id >= 0 for token_id in value)
    )


class CompletionRequest(SamplingFields):
    """A text, or several, that a client asks to have completed."""

    prompt: Annotated[list[Prompt], PlainValidator(prompts_of)]
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    max_tokens: NotNegative | None = None
    suffix: Literal[""] | None = None


def completions_router(served: ServedModel) -> APIRouter:
    return generate_router(served, "/v1/completions", COMPLETION, CompletionRequest, texts_of)


async def texts_of(body: CompletionRequest, served: ServedModel) -> list[TextChoice]:
    """Return the texts that a body asks for. Raises `ApiError` for what this server cannot do."""
    if body.max_tokens == 0 and not body.echo:
        raise invalid("max_tokens must be at least 1, or 0 with echo: true, got 0", "max_tokens")
    n, max_choices = body.n or 1, served.settings.max_choices
    if n * len(body.prompt) > max_choices:
        raise invalid(f"n times the number of prompts must be at most {max_choices}, got {n * len(body.prompt)}", "n")
    max_tokens = DEFAULT_MAX_TOKENS if body.max_tokens is None else max(1, body.max_tokens)
    params = body.sampling_params(max_tokens, body.logprobs)
    choices = list[TextChoice]()
    for prompt in body.prompt:
        if isinstance(prompt, str):
            text, token_ids = prompt, await served.encode(prompt)
        else:
            text, token_ids = served.llm.tokenizer.decode(prompt) if body.echo else "", prompt
        same = choices_of(token_ids, params, n, echo=text if body.echo else "")
        if body.echo and body.logprobs is not None:
            rows = await logprobs_of_prompt(
                served, token_ids, body.logprobs, body.cache_salt, body.priority or 0, served.adapter_of(body.model)
            )
            same = [replace(choice, prompt_rows=list(zip(token_ids, rows, strict=True))) for choice in same]
        choices += [replace(choice, is_empty=body.max_tokens == 0) for choice in same]
    return choices


async def logprobs_of_prompt(
    served: ServedModel,
    token_ids: Sequence[int],
    num_likeliest: int,
    cache_salt: str | None,
    priority: int,
    adapter_id: str | None,
) -> list[TokenLogprobs | None]:
    """Return the logprobs of each token, as benchmarks ask by `echo`; None for the first. Raises `ApiError`.

    The engine reports logprobs of sampled tokens only, by the model's own logits. So each token of the prompt is
    sampled, after the tokens before it, with a bias that leaves it no rival. All but the last block of those is in the
    prefix cache once the longest request has been computed; without that cache it is a whole prompt for each token.
    """
    places, name = asyncio.Semaphore(MAX_AT_ONCE), f"prompt-{uuid4().hex}"

    async def ask(length: int) -> TokenLogprobs | None:
        bias = {token_ids[length]: BIAS}
        params = SamplingParams(1, ignore_eos=True, logit_bias=bias, logprobs=num_likeliest)
        async with (
            places,
            aclosing(
                served.llm.generate(
                    list(token_ids[:length]),
                    params,
                    f"{name}-{length}",
                    priority=priority,
                    cache_salt=cache_salt,
                    adapter_id=adapter_id,
                    timeout=served.settings.request_timeout,
                )
            ) as outputs,
        ):
            async for output in outputs:
                if output.error is not None:
                    raise error_of_output(output.error)
                if output.outputs[0].token_ids == [token_ids[length]] and output.outputs[0].logprobs:
                    return output.outputs[0].logprobs[0]
        raise invalid(f"token {length} of the prompt is too unlikely to be scored", "prompt")

    try:
        longest = [await ask(len(token_ids) - 1)] if len(token_ids) > 1 else []
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ask(length)) for length in range(1, len(token_ids) - 1)]
    except* Exception as errors:
        error = errors.exceptions[0]
        assert isinstance(error, Exception)
        raise error_of_engine(error, "prompt") from error
    return [None, *(task.result() for task in asked), *longest]
