"""`/tokenize` and `/detokenize`: texts and chats as the engine sees them."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from serving.errors import invalid
from serving.limits import read_body
from serving.protocol.chat import as_chat
from serving.protocol.parsing import parse
from serving.protocol.tokenize import DetokenizeRequest, TokenizeRequest
from serving.served_model import ServedModel


def tokenize_router(served: ServedModel) -> APIRouter:
    """Return the routes. (vLLM: `entrypoints/serve/tokenize/serving.py`.)"""
    router = APIRouter()
    tokenizer = served.llm.tokenizer

    @router.post("/tokenize")
    async def tokenize(request: Request) -> JSONResponse:
        wanted = parse(TokenizeRequest, await read_body(request, served.settings))
        served.require(wanted.model)
        wanted.require_possible()
        if wanted.messages is not None:
            tokens = await served.encode_chat(as_chat(wanted.messages))
        else:
            tokens = await served.encode(wanted.prompt or "")
        answer: dict[str, Any] = {"count": len(tokens), "max_model_len": served.max_model_len, "tokens": tokens}
        answer["token_strs"] = [tokenizer.decode([token]) for token in tokens] if wanted.return_token_strs else None
        return JSONResponse(answer)

    @router.post("/detokenize")
    async def detokenize(request: Request) -> JSONResponse:
        wanted = parse(DetokenizeRequest, await read_body(request, served.settings))
        served.require(wanted.model)
        try:
            return JSONResponse({"prompt": tokenizer.decode(wanted.tokens)})
        except Exception as error:  # a tokenizer of transformers may raise anything for an id that it has not
            raise invalid(f"tokens cannot be decoded: {error}", "tokens") from error

    return router
