"""Runs the application on uvicorn, with a graceful shutdown that includes the engine."""

import asyncio
import contextlib
import functools
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Protocol, cast

import uvicorn
from fastapi import Depends, FastAPI

from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm_labs.serving.connection import Connection, ConnectionLimit
from mini_vllm_labs.serving.errors import install_error_handlers
from mini_vllm_labs.serving.limits import KnownHosts
from mini_vllm_labs.serving.live.recent_steps import keep_recent_steps
from mini_vllm_labs.serving.live.routes import live_router
from mini_vllm_labs.serving.metrics import keep_statistics, log_statistics
from mini_vllm_labs.serving.older_clients import WholeAnswers
from mini_vllm_labs.serving.routes.chat import chat_router
from mini_vllm_labs.serving.routes.common import require_api_key
from mini_vllm_labs.serving.routes.completions import completions_router
from mini_vllm_labs.serving.routes.state import models_router, priority_router, state_router
from mini_vllm_labs.serving.routes.tokenize import tokenize_router
from mini_vllm_labs.serving.served_model import ServedModel
from mini_vllm_labs.serving.settings import ServerSettings

BACKLOG = 2048  # uvicorn's default, set explicitly because the socket is bound before uvicorn starts
LAST_EVENTS_SECONDS = 2.0


def create_app(llm: AsyncLLM, settings: ServerSettings) -> FastAPI:
    """Return the application for an engine. `Server.shutdown`, not the application, shuts the engine down."""
    served = ServedModel(llm, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await llm.call(keep_recent_steps)
        await llm.call(keep_statistics)
        await served.open()
        tasks = [asyncio.create_task(log_statistics(llm)), asyncio.create_task(served.pass_on_notices())]
        yield
        for task in tasks:
            task.cancel()

    # Routes read request bodies themselves, so a schema would not contain any fields.
    app = FastAPI(lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    install_error_handlers(app)
    app.add_middleware(WholeAnswers)
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


class Ending(Protocol):
    """One or more engines that a server shuts down when it stops."""

    async def shutdown(self, timeout: float) -> None:
        """Accept no more requests, let running ones finish within `timeout` seconds, and abort all others."""


class Server(uvicorn.Server):
    """Serves until a signal arrives or `should_exit` is set, and then shuts down the engine too.

    The server closes the listening socket and answers new requests on open connections with 503. Running requests may
    finish within `shutdown_timeout`; all others get the finish reason `abort`. A second signal ends everything
    immediately.
    """

    def __init__(self, app: FastAPI, engine: Ending, settings: ServerSettings) -> None:
        connection = functools.partial(Connection, settings=settings, limit=ConnectionLimit())
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(type[asyncio.Protocol], connection),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=max(1, round(settings.header_timeout)),
                backlog=BACKLOG,
            )
        )
        self.engine = engine
        self.settings = settings

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to shut down.

        uvicorn's handler would raise the signal again at the end, and then the process would fail.
        """
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the requests, the connections and the engine."""
        # waits for connections, which in turn wait for their requests
        closing = asyncio.create_task(super().shutdown(sockets))
        ending = asyncio.create_task(self._end_requests())
        while not self.force_exit and not ending.done():
            await asyncio.wait([ending], timeout=0.1)  # a second signal only sets a flag, without waking any task
        ending.cancel()
        for connection in self._connections():
            connection.transport.abort()
        await closing
        with contextlib.suppress(asyncio.CancelledError):
            await ending

    async def _end_requests(self) -> None:
        await self.engine.shutdown(self.settings.shutdown_timeout)
        # Give clients time to read the last events, but do not wait for clients that have stopped reading.
        end = time.monotonic() + LAST_EVENTS_SECONDS
        while self.server_state.connections and time.monotonic() < end:
            for connection in self._connections():
                connection.close_if_idle()
            await asyncio.sleep(0.02)

    def _connections(self) -> list[Connection]:
        return cast(list[Connection], list(self.server_state.connections))


def engine_server(llm: AsyncLLM, settings: ServerSettings) -> Server:
    return Server(create_app(llm, settings), llm, settings)


def bound_socket(settings: ServerSettings) -> socket.socket:
    """Return a socket that listens on the settings' address. Raises `ValueError` if that fails."""
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ValueError(f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}") from error


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server running in a thread. `base_url` is the address for OpenAI's client."""

    address: str
    server: Server
    llm: AsyncLLM

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"


@contextlib.contextmanager
def running_server(llm: AsyncLLM, settings: ServerSettings | None = None) -> Iterator[RunningServer]:
    """Serve an engine in a thread while the `with` block runs, by default on any free port, then end both.

    Raises `ValueError` if the socket cannot be opened, and `RuntimeError` if the server does not start.
    """
    settings = settings or ServerSettings(port=0)
    listener = bound_socket(settings)
    server = engine_server(llm, settings)
    thread = threading.Thread(target=server.run, args=([listener],), name="mini-vllm-server", daemon=True)
    thread.start()
    while not server.started and thread.is_alive():  # uvicorn has no event that signals its start
        time.sleep(0.005)
    if not server.started:
        raise RuntimeError("the server did not start: see its log")
    try:
        yield RunningServer(address_of(listener), server, llm)
    finally:
        server.should_exit = True
        thread.join()
