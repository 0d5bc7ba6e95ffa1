"""An engine as a server in a thread: from a cell of a notebook, or from a test."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mini_vllm.engine.async_llm import AsyncLLM
from serving.server import Server, address_of, bound_socket, engine_server
from serving.settings import ServerSettings


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that runs. `base_url` is what OpenAI's client takes."""

    address: str
    server: Server
    llm: AsyncLLM

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"


@contextmanager
def running_server(llm: AsyncLLM, settings: ServerSettings | None = None) -> Iterator[RunningServer]:
    """Serve an engine while the block runs; its end is the engine's, too. By default any free port is taken.

    Raises `ValueError` if the socket cannot be opened, and `RuntimeError` if the server does not start.
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
