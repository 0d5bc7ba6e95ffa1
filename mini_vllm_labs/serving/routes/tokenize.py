"""Serves `/tokenize` and `/detokenize` for texts and chats. (vLLM: `entrypoints/serve/tokenize/`.)"""

import asyncio
from collections.abc import Callable
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

PIECE = 500  # tokens; a decoder may take 30 us for each


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

    async def encoded_list(tokens: list[int], shown: Callable[[int], int | str]) -> str:
        """Encode the shown part of each token, in batches, and serve other requests in between."""
        pieces = []
        for start in range(0, len(tokens), PIECE):
            pieces.append(compact([*map(shown, tokens[start : start + PIECE])])[1:-1])
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
        head = compact({"count": len(tokens), "max_model_len": served.max_model_len})[:-1]
        ids, texts = await encoded_list(tokens, int), "null"
        if body.return_token_strs:
            texts = await encoded_list(tokens, cache(lambda token: tokenizer.decode([token])))
        return Response(f'{head},"tokens":{ids},"token_strs":{texts}}}', media_type="application/json")

    @router.post("/detokenize")
    async def detokenize(request: Request) -> JSONResponse:
        body = parse(DetokenizeRequest, await read_body(request, served.settings))
        served.require(body.model)
        try:
            return JSONResponse({"prompt": await asyncio.to_thread(tokenizer.decode, body.tokens)})
        except Exception as error:  # a transformers tokenizer may raise any error for an unknown id
            raise invalid(f"tokens cannot be decoded: {error}", "tokens") from error

    return router
