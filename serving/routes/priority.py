"""`/v1/requests/{id}/priority`: a request that waits or runs becomes more or less urgent."""

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import StrictInt

from mini_vllm.engine.llm_engine import LLMEngine
from serving.errors import ApiError, invalid
from serving.limits import read_body
from serving.routes.fields import Fields, parse
from serving.served_model import ServedModel


class PriorityRequest(Fields):
    """The new priority; lower is more urgent."""

    priority: StrictInt


def priority_router(served: ServedModel) -> APIRouter:
    """Return the route. vLLM has none like it: its priorities are fixed when a request arrives."""
    router = APIRouter()

    @router.post("/v1/requests/{answer_id}/priority")
    async def update(answer_id: str, request: Request) -> JSONResponse:
        body = parse(PriorityRequest, await read_body(request, served.settings))
        if served.llm.config.policy != "priority":
            raise invalid(f"priority {body.priority} needs a server with --scheduling-policy priority", "priority")
        num_updated = await served.llm.call(partial(update_choices, answer_id, body.priority))
        if not num_updated:
            raise ApiError(404, f"no unfinished request has the id {answer_id!r}", param="id")
        return JSONResponse({"id": answer_id, "priority": body.priority})

    return router


def update_choices(answer_id: str, priority: int, engine: LLMEngine) -> int:
    """Change the priority of every unfinished choice of an answer; return how many there are."""
    names = [name for name in engine.scheduler.requests if name.rpartition("-")[0] == answer_id]
    return sum(engine.update_priority(name, priority) for name in names)
