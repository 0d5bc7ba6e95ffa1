"""Serves `/tokenize` and `/detokenize` for texts and chats. (vLLM: `entrypoints/serve/tokenize/`.)"""

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from mini_vllm_labs.serving.answers import compact
from mini_vllm_labs.serving.errors import invalid
from mini_vllm_labs.serving.limits import read_body
from mini_vllm_labs.serving.routes.chat import Messages, as_chat
from mini_vllm_labs.serving.routes.fields import Fields, TokenId, parse
from mini_vllm_labs.serving.served_model import ServedModel

PIECE = 10_000


class TokenizeRequest(Fields):
    """A text or a chat that a client wants tokenized."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    return_token_strs: bool | None = None
    add_special_tokens: Literal[True] | None = None
    add_generation_prompt: Literal[True] | None = None

    def require_possible(self) -> None:
        """Raise `ApiError` unless the body has either a prompt or a chat."""
        if (self.prompt is None) == (self.messages is None):
            raise invalid("give either prompt or messages, but not both", "prompt")


class DetokenizeRequest(Fields):
    """Tokens that a client wants converted to text."""

    model: str | None = None
    tokens: list[TokenId]


def tokenize_router(served: ServedModel) -> APIRouter:
    router = APIRouter()
    tokenizer = served.llm.tokenizer

    def texts_of(tokens: list[int]) -> list[str]:
        text_of = cache(lambda token: tokenizer.decode([token]))
        return [text_of(token) for token in tokens]

    async def encoded_list(values: Sequence[int | str]) -> str:
        """Encode a list in pieces, so that other requests can be served in between."""
        pieces = []
        for start in range(0, len(values), PIECE):
            pieces.append(compact(values[start : start + PIECE])[1:-1])
            await asyncio.sleep(0)
        return f"[{','.join(pieces)}]"

    @router.post("/tokenize")
    async def tokenize(request: Request) -> Response:
        body = parse(TokenizeRequest, await read_body(request, served.settings))
        served.require(body.model)
        body.require_possible()
        if body.messages is not None:
            tokens = await served.encode_chat(as_chat(body.messages))
        else:
            tokens = await served.encode(body.prompt or "")
        texts = await asyncio.to_thread(texts_of, tokens) if body.return_token_strs else None
        head = compact({"count": len(tokens), "max_model_len": served.max_model_len})[:-1]
        lists = [await encoded_list(tokens), "null" if texts is None else await encoded_list(texts)]
        return Response(f'{head},"tokens":{lists[0]},"token_strs":{lists[1]}}}', media_type="application/json")

    @router.post("/detokenize")
    async def detokenize(request: Request) -> JSONResponse:
        body = parse(DetokenizeRequest, await read_body(request, served.settings))
        served.require(body.model)
        try:
            return JSONResponse({"prompt": await asyncio.to_thread(tokenizer.decode, body.tokens)})
        except Exception as error:  # a transformers tokenizer may raise any error for an unknown id
            raise invalid(f"tokens cannot be decoded: {error}", "tokens") from error

    return router
