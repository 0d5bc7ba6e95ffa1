"""The server: uvicorn over the application, and its graceful end."""

import asyncio
import contextlib
import functools
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Protocol, cast

import uvicorn
from fastapi import FastAPI

from mini_vllm.engine.async_llm import AsyncLLM
from serving.app import create_app
from serving.connection import Connection
from serving.settings import ServerSettings

BACKLOG = 2048
LAST_EVENTS_SECONDS = 2.0


class Ending(Protocol):
    """What a server ends with itself: an engine, or several."""

    async def shutdown(self, timeout: float) -> None:
        """Take no more requests, let the others end within `timeout` seconds, abort the rest."""
        ...


class Server(uvicorn.Server):
    """Serves until it is told to end, by a signal or by `should_exit`. Then it ends the engine, too.

    New requests are refused: by 503 on connections that are open, and the listening socket is closed. Running ones may
    end within `shutdown_timeout`, the rest gets the finish reason `abort`. A second signal ends at once.
    """

    def __init__(self, app: FastAPI, engine: Ending, settings: ServerSettings) -> None:
        connection = functools.partial(Connection, settings=settings)
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
        """Begin to end. uvicorn's own handler would raise the signal again at the end, and so fail the process."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the requests, the connections and the engine."""
        closing = asyncio.create_task(super().shutdown(sockets))
        ending = asyncio.create_task(self._end_requests())
        while not self.force_exit and not ending.done():
            await asyncio.wait([ending], timeout=0.1)
        ending.cancel()
        self._abort_connections()
        await closing
        with contextlib.suppress(asyncio.CancelledError):
            await ending

    async def _end_requests(self) -> None:
        await self.engine.shutdown(self.settings.shutdown_timeout)
        # The last events are on their way to the connections; a client that does not read them is not waited for.
        end = time.monotonic() + LAST_EVENTS_SECONDS
        while self.server_state.connections and time.monotonic() < end:
            for connection in self._connections():
                connection.close_if_idle()
            await asyncio.sleep(0.02)

    def _abort_connections(self) -> None:
        for connection in self._connections():
            connection.transport.abort()

    def _connections(self) -> list[Connection]:
        return cast(list[Connection], list(self.server_state.connections))


def engine_server(llm: AsyncLLM, settings: ServerSettings) -> Server:
    """Return the server of one engine."""
    return Server(create_app(llm, settings), llm, settings)


def bound_socket(settings: ServerSettings) -> socket.socket:
    """Return a socket that listens where the settings say. Raises `ValueError` if that is not possible."""
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ValueError(f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}") from error


def address_of(listener: socket.socket) -> str:
    """Return the address under which a listening socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that runs in a thread. `base_url` is what OpenAI's client takes."""

    address: str
    server: Server
    llm: AsyncLLM

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"


@contextlib.contextmanager
def running_server(llm: AsyncLLM, settings: ServerSettings | None = None) -> Iterator[RunningServer]:
    """Serve an engine while the block runs, as in a cell of a notebook or in a test; its end is the engine's, too.

    By default any free port is taken. Raises `ValueError` if the socket cannot be opened, `RuntimeError` if the server
    does not start.
    """
    settings = settings or ServerSettings(port=0)
    listener = bound_socket(settings)
    server = engine_server(llm, settings)
    thread = threading.Thread(target=server.run, args=([listener],), name="mini-vllm-server", daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.005)
    if not server.started:
        raise RuntimeError("the server did not start: its log says why")
    try:
        yield RunningServer(address_of(listener), server, llm)
    finally:
        server.should_exit = True
        thread.join()
