"""The server's own process: it serves the lineup that its parent names, and ends with it."""

import socket
import threading
from typing import cast

from fastapi import FastAPI

from course.fresh.process import describe, unpack
from course.sandbox.channel import Channel, ChannelError, take_stdio
from course.sandbox.explain import is_not_written
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.llm import LLM
from serving.live.recent_steps import keep_recent_steps
from serving.notebook.noted import Noted
from serving.notebook.routes import notebook_router
from serving.notebook.watched import Watched
from serving.server import Server, address_of, bound_socket, engine_server
from serving.settings import ServerSettings

SETTINGS = ServerSettings(port=0, shutdown_timeout=0)


def open_server(config: EngineConfig, lineup: Lineup) -> tuple[Server, socket.socket]:
    """Return the server of a lineup with the routes of the notebook, and its socket."""
    engine = LLM(config=config, lineup=lineup, record=True).engine
    keep_recent_steps(engine)
    watched = Watched(engine)
    llm = AsyncLLM(engine)
    listener = bound_socket(SETTINGS)
    server = engine_server(llm, SETTINGS)
    app = cast(FastAPI, server.config.app)
    app.include_router(notebook_router(llm, watched))
    app.add_middleware(Noted, exchanges=watched.exchanges)
    return server, listener


def end_with_parent(channel: Channel, server: Server) -> None:
    """Wait for the end of the channel, and end the server."""
    try:
        while True:
            channel.receive()
    except ChannelError:
        server.should_exit = server.force_exit = True


def main() -> None:
    """Say where the server listens, or why there is none; then serve."""
    channel = take_stdio()
    config, lineup = unpack(channel.receive()["serve"])
    try:
        server, listener = open_server(config, lineup)
    except (Exception, SystemExit) as error:
        channel.send({"problem": describe(error), "unwritten": is_not_written(error)})
        return
    channel.send({"address": address_of(listener)})
    threading.Thread(target=end_with_parent, args=(channel, server), daemon=True).start()
    server.run([listener])


if __name__ == "__main__":
    main()
