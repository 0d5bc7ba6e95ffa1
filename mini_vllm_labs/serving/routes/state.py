"""Serves the server's state: `/v1/models`, `/health` for load balancers, `/metrics`, and a request's priority."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import StrictInt

from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.serving.errors import ApiError, invalid, unavailable
from mini_vllm_labs.serving.limits import read_body
from mini_vllm_labs.serving.metrics import EngineCollector, counts_and_failure, counts_of
from mini_vllm_labs.serving.routes.fields import Fields, parse
from mini_vllm_labs.serving.served_model import ServedModel

READING = ["GET", "HEAD"]  # clients such as aiperf send HEAD to check whether a page exists


def state_router(served: ServedModel) -> APIRouter:
    """Return the routes. These routes need no API key, as in vLLM."""
    router = APIRouter()

    @router.api_route("/health", methods=READING)
    async def health() -> JSONResponse:
        served.require_responsive()
        if served.llm.notice:  # checked first, because the engine might not answer
            return JSONResponse({"status": "slow", "message": served.llm.notice})
        counts, failure = await served.llm.call_during_step(counts_and_failure)
        if counts.leak and counts.gauges["kv_cache_usage_perc"] == 1:
            raise unavailable(f"no blocks are left: {counts.leak}", "blocks_leaked")
        if problem := counts.leak or failure:
            return JSONResponse({"status": "leaking" if counts.leak else "failing", "message": problem})
        return JSONResponse({"status": "ok"})

    @router.api_route("/metrics", methods=READING)
    async def metrics() -> Response:
        try:
            counts = await served.llm.call_during_step(counts_of)
        except (EngineDeadError, ShuttingDownError) as error:
            raise unavailable(str(error), "engine_dead") from error
        page = generate_latest(EngineCollector(counts, served.name, served.params_n))
        return Response(page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router


def models_router(served: ServedModel) -> APIRouter:
    """Return the routes. (vLLM: `entrypoints/openai/models/api_router.py`.)"""
    router = APIRouter()

    @router.api_route("/v1/models", methods=READING)
    async def list_models() -> JSONResponse:
        return JSONResponse({"object": "list", "data": [card(served, name) for name in served.names]})

    @router.api_route("/v1/models/{name:path}", methods=READING)
    async def show_model(name: str) -> JSONResponse:
        served.require(name)
        return JSONResponse(card(served, name))

    return router


def card(served: ServedModel, name: str) -> dict[str, Any]:
    """Return OpenAI's description of the model or an adapter, with vLLM's `max_model_len`."""
    return {
        "id": name,
        "object": "model",
        "created": served.created,
        "owned_by": "mini-vllm",
        "root": name,
        "parent": served.adapter_of(name) and served.name,
        "max_model_len": served.max_model_len,
    }


class PriorityRequest(Fields):
    """The new priority, where a lower number is more urgent."""

    priority: StrictInt


def priority_router(served: ServedModel) -> APIRouter:
    """Return the route. vLLM does not have this route, because it fixes a request's priority on arrival."""
    router = APIRouter()

    @router.post("/v1/requests/{answer_id}/priority")
    async def update(answer_id: str, request: Request) -> JSONResponse:
        body = parse(PriorityRequest, await read_body(request, served.settings))
        if served.llm.config.policy != "priority":
            raise invalid(
                f"priority {body.priority} needs a server started with --scheduling-policy priority",
                "priority",
            )
        num_updated = await served.llm.call(partial(update_choices, answer_id, body.priority))
        if not num_updated:
            raise ApiError(404, f"no unfinished request has the id {answer_id!r}", param="id")
        return JSONResponse({"id": answer_id, "priority": body.priority})

    return router


def update_choices(answer_id: str, priority: int, engine: LLMEngine) -> int:
    """Change the priority of every unfinished choice of an answer, and return the number of these choices."""
    names = [name for name in engine.scheduler.requests if name.rpartition("-")[0] == answer_id]
    return sum(engine.update_priority(name, priority) for name in names)
