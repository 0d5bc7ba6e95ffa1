"""`/v1/chat/completions`: the next message of a conversation."""

from fastapi import APIRouter, Request, Response

from serving.answers.asked import Asked
from serving.answers.form import CHAT
from serving.answers.stream import StreamedAnswer
from serving.answers.whole import whole_answer
from serving.choices import choices_of
from serving.errors import invalid
from serving.limits import read_body
from serving.protocol.chat import ChatCompletionRequest, as_chat
from serving.protocol.parsing import parse
from serving.routes.common import name_of, require_priority_policy
from serving.served_model import ServedModel


def chat_router(served: ServedModel) -> APIRouter:
    """Return the route. (vLLM: `entrypoints/openai/chat_completion/serving.py`.)"""
    router = APIRouter()

    @router.post("/v1/chat/completions")
    async def create_chat_completion(request: Request) -> Response:
        served.require_running()
        wanted = parse(ChatCompletionRequest, await read_body(request, served.settings))
        asked = await asked_of(wanted, served, name_of(request))
        return StreamedAnswer(asked) if wanted.stream else await whole_answer(asked, request)

    return router


async def asked_of(wanted: ChatCompletionRequest, served: ServedModel, name: str) -> Asked:
    """Return what a request asks of the engine. Raises `ApiError` for what it cannot have.

    Without a limit the answer may use all the room that the conversation leaves.
    """
    served.require(wanted.model)
    require_priority_policy(wanted.priority, served)
    n, most = wanted.n or 1, served.settings.max_choices
    if n > most:
        raise invalid(f"n must be at most {most}, got {n}", "n")
    prompt_token_ids = await served.encode_chat(as_chat(wanted.messages))
    max_tokens = wanted.asked_max_tokens or served.room_for(len(prompt_token_ids))
    params = wanted.sampling_params(max_tokens, wanted.num_logprobs)
    return Asked(
        name=name,
        form=CHAT,
        served=served,
        choices=choices_of(prompt_token_ids, params, n),
        n=n,
        prompt_field="messages",
        num_logprobs=wanted.num_logprobs,
        include_usage=wanted.include_usage,
        priority=wanted.priority or 0,
        cache_salt=wanted.cache_salt,
    )
