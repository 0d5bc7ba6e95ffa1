"""Runs the server's process, which serves the lineup its parent names and exits when its parent exits.

In addition to OpenAI's API, it has routes for the notebook: the run so far, pausing, and the exchanges so far.
"""

import asyncio
import socket
import threading
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, cast

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mini_vllm import LLM, EngineConfig, Lineup
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import StepObserver, StepResult
from mini_vllm.outputs import RequestMetrics
from mini_vllm_labs.fresh.process import describe, unpack
from mini_vllm_labs.notebook.record_codec import to_json
from mini_vllm_labs.notebook.serving.replay import Exchange
from mini_vllm_labs.runs.sandbox.channel import Channel, ChannelError, take_stdio
from mini_vllm_labs.runs.sandbox.explain import is_not_written
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.serving.live.recent_steps import keep_recent_steps
from mini_vllm_labs.serving.server import Server, address_of, bound_socket, engine_server
from mini_vllm_labs.serving.settings import ServerSettings

SETTINGS = ServerSettings(port=0, shutdown_timeout=0)  # a notebook that is shutting down does not wait for answers
SETTLE_SECONDS = 10.0
NOT_NOTED = "/notebook/"
RUN = "/notebook/run"  # the cell shows the request's answer, so records must include it


class RequestWatcher(StepObserver):
    """Keeps the metrics of every request, and pauses the engine after a given number of steps, on the engine's
    thread."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine = engine
        self.exchanges: list[Exchange] = []
        self.metrics: dict[str, RequestMetrics] = {}
        self._steps_to_pause = 0
        self._llm: AsyncLLM | None = None
        engine.add_observer(self)

    def pause_after(self, num_steps: int, llm: AsyncLLM) -> None:
        """Pause after `num_steps` more steps; 0 pauses immediately."""
        self._steps_to_pause, self._llm = num_steps, llm
        if num_steps:
            llm.resume()
        else:
            llm.pause()

    def request_added(self, request_id: str) -> None:
        self.metrics[request_id] = self.engine.processor.states[request_id].metrics

    def after_update(self, result: StepResult) -> None:
        if self._steps_to_pause:
            self._steps_to_pause -= 1
            if not self._steps_to_pause and self._llm:
                self._llm.pause()

    def run(self, engine: LLMEngine) -> dict[str, Any]:
        """Return the recording so far and the unfinished requests.

        The recorder sorts some requests by name, but these names are random, so here they are sorted by arrival.
        """
        recording = Recording.of(engine)
        place = {request_id: number for number, request_id in enumerate(self.metrics)}
        steps = [
            record | {"finished_sent": sorted(record["finished_sent"], key=place.__getitem__)}
            for record in recording.steps
        ]
        return {"recording": to_json(replace(recording, steps=steps)), "unfinished": list(engine.processor.states)}

    def times(self, engine: LLMEngine) -> dict[str, list[float]]:
        """Return each request's time in the queue, in prefill and in decode, in seconds."""
        return {request_id: phases(metrics) for request_id, metrics in self.metrics.items()}


def phases(metrics: RequestMetrics) -> list[float]:
    """Return the duration in seconds of each phase that a request has completed."""
    moments = [metrics.arrival_time, metrics.first_scheduled_time, metrics.first_token_time, metrics.last_token_time]
    known = [moment for moment in moments if moment is not None]
    return [after - before for before, after in pairwise(known)]


class Noted:
    """ASGI middleware that adds exchanges to a list in the order in which they start."""

    def __init__(self, app: ASGIApp, exchanges: list[Exchange]) -> None:
        self.app, self.exchanges = app, exchanges

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or (path.startswith(NOT_NOTED) and path != RUN):
            await self.app(scope, receive, send)
            return
        asked, answer, status, headers = bytearray(), bytearray(), 0, dict[str, str]()
        place = len(self.exchanges)
        self.exchanges.append(Exchange(scope["method"], path, "", 0, {}, ""))

        async def hear() -> Message:
            message = await receive()
            asked.extend(message.get("body", b""))
            return message

        async def say(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers.update({name.decode().lower(): value.decode() for name, value in message["headers"]})
            answer.extend(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, hear, say)
        finally:
            self.exchanges[place] = Exchange(
                scope["method"], path, asked.decode(), status, headers, answer.decode(errors="replace")
            )


def notebook_router(llm: AsyncLLM, watched: RequestWatcher) -> APIRouter:
    router = APIRouter(prefix="/notebook")

    @router.get("/run")
    async def run() -> dict[str, Any]:
        return await llm.call(watched.run)

    @router.get("/times")
    async def times() -> dict[str, list[float]]:
        return await llm.call(watched.times)

    @router.get("/arrived")
    async def arrived() -> int:
        """Return the number of requests so far."""
        return await llm.call(lambda engine: len(watched.metrics))

    @router.get("/settled")
    async def settled() -> bool:
        """Wait until every request has finished, including requests whose client has disconnected."""
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


def open_server(config: EngineConfig, lineup: Lineup) -> tuple[Server, socket.socket]:
    """Return a lineup's server, with the notebook's routes, and its socket."""
    engine = LLM(config=config, lineup=lineup, record=True).engine
    engine.explain_steps()
    keep_recent_steps(engine)
    watched = RequestWatcher(engine)
    llm = AsyncLLM(engine)
    listener = bound_socket(SETTINGS)
    server = engine_server(llm, SETTINGS)
    app = cast(FastAPI, server.config.app)
    app.include_router(notebook_router(llm, watched))
    app.add_middleware(Noted, exchanges=watched.exchanges)
    return server, listener


def end_with_parent(channel: Channel, server: Server) -> None:
    """Wait until the channel closes, then stop the server."""
    try:
        while True:
            channel.receive()
    except ChannelError:
        server.should_exit = server.force_exit = True  # nobody is reading the answer any more


def main() -> None:
    """Report the server's address, or the reason for its failure, then serve."""
    channel = take_stdio()
    config, lineup = unpack(channel.receive()["serve"])
    try:
        server, listener = open_server(config, lineup)
    except (Exception, SystemExit) as error:  # a starter may call `sys.exit` when it is imported
        channel.send({"problem": describe(error), "unwritten": is_not_written(error)})
        return
    channel.send({"address": address_of(listener)})
    threading.Thread(target=end_with_parent, args=(channel, server), daemon=True).start()
    server.run([listener])


if __name__ == "__main__":
    main()
