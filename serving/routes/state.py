"""What is served, and how it does: `/v1/models`; `/health` for balancers and `/metrics` for Prometheus."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from serving.errors import unavailable
from serving.metrics.collector import EngineCollector
from serving.metrics.engine_statistics import counts_of
from serving.served_model import ServedModel


def state_router(served: ServedModel) -> APIRouter:
    """Return the routes. They need no API key, as in vLLM."""
    router = APIRouter()

    @router.get("/health")
    async def health() -> JSONResponse:
        served.require_responsive()
        return JSONResponse({"status": "ok"})

    @router.get("/metrics")
    async def metrics() -> Response:
        try:
            counts = await served.llm.call_during_step(counts_of)
        except (EngineDeadError, ShuttingDownError) as error:
            raise unavailable(str(error), "engine_dead") from error
        registry = CollectorRegistry()
        registry.register(EngineCollector(counts, served.name))
        return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router


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
