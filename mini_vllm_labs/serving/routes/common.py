"""Contains the code that the routes share: API keys, request ids, and the steps from body to text."""

import pickle
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import uuid4

from fastapi import APIRouter, Request, Response

from mini_vllm.engine.errors import ContextLengthError
from mini_vllm_labs.serving.answer_format import AnswerFormat
from mini_vllm_labs.serving.answers import StreamedAnswer, whole_answer
from mini_vllm_labs.serving.errors import ApiError, invalid
from mini_vllm_labs.serving.generate_request import GenerateRequest, TextChoice
from mini_vllm_labs.serving.limits import ended_by_disconnect, read_body
from mini_vllm_labs.serving.routes.fields import SamplingFields, parse
from mini_vllm_labs.serving.served_model import ServedModel

Body = TypeVar("Body", bound=SamplingFields)

MAX_ID_CHARACTERS = 128
MAX_REPORTED = 500_000  # number of logprobs in an answer
MAX_SENT = 16 * 1024 * 1024
REQUEST_ID = re.compile(rf"[A-Za-z0-9._:-]{{1,{MAX_ID_CHARACTERS}}}")


def require_api_key(api_key: str | None) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that raises `ApiError` (401) unless a request has the key.

    A key of None admits every request.
    """

    async def require(request: Request) -> None:
        if api_key is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # `compare_digest` takes the same time for every wrong key.
        if scheme.lower() != "bearer" or not secrets.compare_digest(given.strip().encode(), api_key.encode()):
            message = "the API key is wrong" if given else "no API key: send it as Authorization: Bearer KEY"
            headers = {"WWW-Authenticate": "Bearer"}
            raise ApiError(401, message, type="authentication_error", code="invalid_api_key", headers=headers)

    return require


def request_id_of(request: Request) -> str:
    """Return the request's id, from `X-Request-Id` or newly created. The answer's id ends with this id.

    vLLM: `_base_request_id`. Raises `ApiError` (400) for an id that would not fit in a URL.
    """
    request_id = request.headers.get("x-request-id")
    if request_id is None:
        return uuid4().hex
    if not REQUEST_ID.fullmatch(request_id):
        allowed = f"1 to {MAX_ID_CHARACTERS} letters, digits, '.', '_', '-' or ':'"
        raise invalid(f"X-Request-Id must be {allowed}, got {request_id[:MAX_ID_CHARACTERS]!r}", "X-Request-Id")
    return request_id


def require_few_logprobs(choices: Sequence[TextChoice], max_model_len: int) -> None:
    """Raise `ApiError` (400) if an answer could exceed `MAX_REPORTED` logprobs, because 255 MB of them took 21 s."""
    rows = (min(one.sampling_params.max_tokens, max_model_len - len(one.prompt_token_ids)) for one in choices)
    shown = choices[0].sampling_params.logprobs
    if shown is not None and (count := sum(rows) * (shown + 1)) > MAX_REPORTED:
        raise invalid(
            f"the answer could contain {count:,} logprobs (texts x tokens x logprobs per token), but at most "
            f"{MAX_REPORTED:,} may be returned: request fewer texts, a smaller max_tokens, or fewer logprobs",
            "logprobs",
        )


def require_little_to_send(choices: Sequence[TextChoice]) -> None:
    """Raise `ApiError` (400) if the prompts and settings of all texts together exceed `MAX_SENT` bytes.

    Each text's request goes to the engine with all its settings, so `n` multiplies long stop strings and grammars.
    """
    settings = len(pickle.dumps(choices[0].sampling_params)) * len(choices)
    if (count := settings + sum(3 * len(one.prompt_token_ids) + len(one.echo) for one in choices)) > MAX_SENT:
        raise invalid(
            f"the prompts and settings of {len(choices)} texts take up {count:,} bytes in total, but at most "
            f"{MAX_SENT:,} are accepted: request fewer texts, or use shorter prompts, stop strings or grammars",
            "n",
        )


def generate_router(
    served: ServedModel,
    path: str,
    format: AnswerFormat,
    fields: type[Body],
    texts_of: Callable[[Body, ServedModel], Awaitable[list[TextChoice]]],
) -> APIRouter:
    """Return the route that answers a body of type `fields` with the requested texts, either whole or streamed."""
    router = APIRouter()

    @router.post(path)
    async def generate(request: Request) -> Response:
        served.require_running()  # checked first, because a 503 does not require reading the body
        body = parse(fields, await read_body(request, served.settings))
        request_id = request_id_of(request)
        served.require(body.model)
        if body.priority and served.llm.config.policy != "priority":
            message = f"priority {body.priority} needs a server that was started with --scheduling-policy priority"
            raise invalid(message, "priority")
        choices = list[TextChoice]()
        async with ended_by_disconnect(request.receive):  # scoring a prompt is slow
            try:
                choices = await texts_of(body, served)
            except ContextLengthError as error:
                raise body.sent.too_long(error) from None
        if not choices:
            return Response()
        require_few_logprobs(choices, served.max_model_len)
        require_little_to_send(choices)
        wanted = GenerateRequest(
            request_id=request_id,
            format=format,
            served=served,
            choices=choices,
            n=body.n or 1,
            include_usage=body.include_usage,
            continuous_usage=body.continuous_usage,
            priority=body.priority or 0,
            cache_salt=body.cache_salt,
            adapter_id=served.adapter_of(body.model),
            sent=body.sent,
            forced_call=body.forced_call(),
        )
        return StreamedAnswer(wanted) if body.stream else await whole_answer(wanted, request)

    return router
