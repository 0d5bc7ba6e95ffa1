"""`/v1/completions`: the continuation of texts. (vLLM: `entrypoints/openai/completion/{protocol,serving}.py`.)"""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field, PlainValidator

from mini_vllm.sampling_params import MAX_LOGPROBS
from serving.answer_format import COMPLETION
from serving.answers import StreamedAnswer, whole_answer
from serving.errors import invalid
from serving.generate_request import GenerateRequest, choices_of
from serving.limits import read_body
from serving.routes.common import request_id_of, require_priority_policy
from serving.routes.fields import SamplingFields, parse, shown
from serving.served_model import ServedModel

Prompt = str | list[int]
DEFAULT_MAX_TOKENS = 16


def prompts_of(value: object) -> list[Prompt]:
    """Return the prompts of a field. Raises `ValueError` if it has none of the four legal forms."""
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
    """What a client asks to have completed."""

    prompt: Annotated[list[Prompt], PlainValidator(prompts_of)]
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    suffix: None = None
    best_of: None = None

    def require_possible(self) -> None:
        """Raise `ApiError` for a combination that this engine cannot serve."""
        if self.echo and self.logprobs is not None:
            raise invalid("logprobs with echo is not supported: the engine computes none of the prompt's", "logprobs")


def completions_router(served: ServedModel) -> APIRouter:
    """Return the route."""
    router = APIRouter()

    @router.post("/v1/completions")
    async def create_completion(request: Request) -> Response:
        served.require_running()
        body = parse(CompletionRequest, await read_body(request, served.settings))
        generate = await to_generate_request(body, served, request_id_of(request))
        return StreamedAnswer(generate) if body.stream else await whole_answer(generate, request)

    return router


async def to_generate_request(body: CompletionRequest, served: ServedModel, request_id: str) -> GenerateRequest:
    """Return what a body asks of the engine. Raises `ApiError` for what it cannot have."""
    served.require(body.model)
    body.require_possible()
    require_priority_policy(body.priority, served)
    n, max_choices = body.n or 1, served.settings.max_choices
    if n * len(body.prompt) > max_choices:
        raise invalid(f"n times the number of prompts must be at most {max_choices}, got {n * len(body.prompt)}", "n")
    params = body.sampling_params(body.max_tokens or DEFAULT_MAX_TOKENS, body.logprobs)
    prompts = [await _encoded(prompt, served) for prompt in body.prompt]
    return GenerateRequest(
        request_id=request_id,
        format=COMPLETION,
        served=served,
        choices=[choice for prompt in prompts for choice in choices_of(prompt, params, n)],
        n=n,
        prompt_field="prompt",
        num_logprobs=body.logprobs,
        include_usage=body.include_usage,
        echoes=[_text(prompt, served) for prompt in body.prompt for _ in range(n)] if body.echo else [],
        priority=body.priority or 0,
        cache_salt=body.cache_salt,
    )


async def _encoded(prompt: Prompt, served: ServedModel) -> list[int]:
    return await served.encode(prompt) if isinstance(prompt, str) else prompt


def _text(prompt: Prompt, served: ServedModel) -> str:
    return prompt if isinstance(prompt, str) else served.llm.tokenizer.decode(prompt)
