"""`/v1/completions`: the continuation of texts."""

from fastapi import APIRouter, Request, Response

from serving.answers.asked import Asked
from serving.answers.form import COMPLETION
from serving.answers.stream import StreamedAnswer
from serving.answers.whole import whole_answer
from serving.choices import Choice, choices_of
from serving.errors import invalid
from serving.limits import read_body
from serving.protocol.completion import DEFAULT_MAX_TOKENS, CompletionRequest, Prompt
from serving.protocol.parsing import parse
from serving.routes.common import name_of, require_priority_policy
from serving.served_model import ServedModel


def completions_router(served: ServedModel) -> APIRouter:
    """Return the route. (vLLM: `entrypoints/openai/completion/serving.py`.)"""
    router = APIRouter()

    @router.post("/v1/completions")
    async def create_completion(request: Request) -> Response:
        served.require_running()
        wanted = parse(CompletionRequest, await read_body(request, served.settings))
        asked = await asked_of(wanted, served, name_of(request))
        return StreamedAnswer(asked) if wanted.stream else await whole_answer(asked, request)

    return router


async def asked_of(wanted: CompletionRequest, served: ServedModel, name: str) -> Asked:
    """Return what a request asks of the engine. Raises `ApiError` for what it cannot have."""
    served.require(wanted.model)
    wanted.require_possible()
    require_priority_policy(wanted.priority, served)
    n, most = wanted.n or 1, served.settings.max_choices
    if n * len(wanted.prompt) > most:
        raise invalid(f"n times the number of prompts must be at most {most}, got {n * len(wanted.prompt)}", "n")
    prompts = [await _encoded(prompt, served) for prompt in wanted.prompt]
    return Asked(
        name=name,
        form=COMPLETION,
        served=served,
        choices=[choice for prompt in prompts for choice in _choices(wanted, prompt, n)],
        n=n,
        prompt_field="prompt",
        num_logprobs=wanted.logprobs,
        include_usage=wanted.include_usage,
        echoes=[_text(prompt, served) for prompt in wanted.prompt for _ in range(n)] if wanted.echo else [],
        priority=wanted.priority or 0,
        cache_salt=wanted.cache_salt,
    )


def _choices(wanted: CompletionRequest, prompt_token_ids: list[int], n: int) -> list[Choice]:
    params = wanted.sampling_params(wanted.max_tokens or DEFAULT_MAX_TOKENS, wanted.logprobs)
    return choices_of(prompt_token_ids, params, n)


async def _encoded(prompt: Prompt, served: ServedModel) -> list[int]:
    return await served.encode(prompt) if isinstance(prompt, str) else prompt


def _text(prompt: Prompt, served: ServedModel) -> str:
    return prompt if isinstance(prompt, str) else served.llm.tokenizer.decode(prompt)
