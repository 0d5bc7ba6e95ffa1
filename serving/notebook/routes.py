"""What a notebook asks of its server beside OpenAI's API: the run so far, a pause, what has been said."""

import asyncio
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from mini_vllm.engine.async_llm import AsyncLLM
from serving.notebook.watched import Watched

SETTLE_SECONDS = 10.0


def notebook_router(llm: AsyncLLM, watched: Watched) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix="/notebook")

    @router.get("/run")
    async def run() -> dict[str, Any]:
        return await llm.call(watched.run)

    @router.get("/times")
    async def times() -> dict[str, list[float]]:
        return await llm.call(watched.times)

    @router.get("/arrived")
    async def arrived() -> int:
        """Return how many requests have arrived so far."""
        return await llm.call(lambda engine: len(watched.metrics))

    @router.get("/settled")
    async def settled() -> bool:
        """Wait until every request has ended: that of a client that has hung up, too."""
        end = asyncio.get_running_loop().time() + SETTLE_SECONDS
        while llm.num_unfinished_requests and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.005)
        return await llm.call(lambda engine: not engine.processor.states)

    @router.post("/pause")
    async def pause(after_steps: int = 0) -> None:
        await llm.call(lambda engine: watched.pause_after(after_steps, llm))

    @router.post("/resume")
    async def resume() -> None:
        llm.resume()

    @router.get("/exchanges")
    async def exchanges() -> list[dict[str, Any]]:
        return [asdict(each) for each in watched.exchanges]

    return router
