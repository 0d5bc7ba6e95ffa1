"""`/v1/models`: what is served."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from serving.served_model import ServedModel


def models_router(served: ServedModel) -> APIRouter:
    """Return the routes. (vLLM: `entrypoints/openai/models/api_router.py`.)"""
    router = APIRouter()

    @router.get("/v1/models")
    async def list_models() -> JSONResponse:
        return JSONResponse({"object": "list", "data": [card(served)]})

    @router.get("/v1/models/{name:path}")
    async def show_model(name: str) -> JSONResponse:
        served.require(name)
        return JSONResponse(card(served))

    return router


def card(served: ServedModel) -> dict[str, Any]:
    """Return the model as OpenAI's API describes it, with vLLM's `max_model_len`."""
    return {
        "id": served.name,
        "object": "model",
        "created": served.created,
        "owned_by": "mini-vllm",
        "root": served.name,
        "parent": None,
        "max_model_len": served.max_model_len,
    }
