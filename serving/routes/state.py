"""`/health` and `/metrics`: how the engine does, for balancers and for Prometheus."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from serving.served_model import ServedModel


def state_router(served: ServedModel, registry: CollectorRegistry) -> APIRouter:
    """Return the routes. They need no API key, as in vLLM."""
    router = APIRouter()

    @router.get("/health")
    async def health() -> JSONResponse:
        served.require_responsive()
        return JSONResponse({"status": "ok"})

    @router.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router
