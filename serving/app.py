"""Assembles the application."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI

from mini_vllm.engine.async_llm import AsyncLLM
from serving.errors import install_error_handlers
from serving.limits import KnownHosts
from serving.live.recent_steps import keep_recent_steps
from serving.live.routes import live_router
from serving.metrics import keep_statistics, log_statistics
from serving.routes.chat import chat_router
from serving.routes.common import require_api_key
from serving.routes.completions import completions_router
from serving.routes.state import models_router, priority_router, state_router
from serving.routes.tokenize import tokenize_router
from serving.served_model import ServedModel
from serving.settings import ServerSettings


def create_app(llm: AsyncLLM, settings: ServerSettings) -> FastAPI:
    """Return the application for an engine, which it does not shut down: `Server.shutdown` does."""
    served = ServedModel(llm, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await llm.call(keep_recent_steps)
        await llm.call(keep_statistics)
        await served.open()
        logging_statistics = asyncio.create_task(log_statistics(llm))
        yield
        logging_statistics.cancel()

    # Routes read bodies themselves, so a schema would show no fields.
    app = FastAPI(lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    install_error_handlers(app)
    app.add_middleware(KnownHosts, settings=settings)
    with_key = [Depends(require_api_key(settings.api_key))]
    app.include_router(models_router(served), dependencies=with_key)
    app.include_router(completions_router(served), dependencies=with_key)
    app.include_router(chat_router(served), dependencies=with_key)
    app.include_router(tokenize_router(served), dependencies=with_key)
    app.include_router(priority_router(served), dependencies=with_key)
    app.include_router(state_router(served))
    app.include_router(live_router(served))
    return app
