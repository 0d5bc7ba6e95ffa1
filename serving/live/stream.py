"""What a page gets: pictures of the newest step or of the one that it looks at, and the state of the server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from serving.answers import START
from serving.limits import ended_by_disconnect
from serving.live.drawing.look import Look
from serving.live.drawing_process import DrawingEndedError
from serving.live.seen import steps_since
from serving.live.watch import Viewer, Watch

PERIOD = 1 / 8
SILENCE = 15.0
AFTER_FAILURE = 1.0
COMMENT = b":\n\n"


class LiveStream(Response):
    """Sends events until the page closes. A picture is drawn when the one before has been taken."""

    def __init__(self, watch: Watch, viewer: Viewer) -> None:
        super().__init__()
        self._watch, self._viewer = watch, viewer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with ended_by_disconnect(receive):
                await send(START)
                async for event in live_events(self._watch, self._viewer):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._watch.close(self._viewer)


async def live_events(watch: Watch, viewer: Viewer) -> AsyncIterator[bytes]:
    """Yield the events of a page until the server ends: at most eight pictures per second, none if nothing changes."""
    yield event("hello", {"viewer": viewer.id, "model": watch.served.name, **watch.facts})
    status: dict[str, Any] = {}
    sent: tuple[int, Look] | None = None
    quiet = 0.0
    while not watch.served.llm.is_shutting_down:
        viewer.changed.clear()
        before, status = status, await watch.status()
        wanted = status["newest"] if viewer.look.step is None else viewer.look.step, viewer.look
        quiet += PERIOD
        if status != before:
            yield event("status", status)
            quiet = 0
        if status["newest"] >= 0 and wanted != sent:
            try:
                yield await picture(watch, viewer)
                sent = wanted
            except DrawingEndedError as error:
                yield event("failure", {"message": str(error)})
                await asyncio.sleep(AFTER_FAILURE)
            except (EngineDeadError, ShuttingDownError):  # the status says so, and the last picture stays
                sent = wanted
            quiet = 0
        elif quiet >= SILENCE:
            yield COMMENT
            quiet = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(PERIOD):
                await viewer.changed.wait()
    yield event("end", {"message": "the server is shutting down"})


async def picture(watch: Watch, viewer: Viewer) -> bytes:
    """Return the event of a picture. Raises `DrawingEndedError`."""
    chunks = await watch.served.llm.call_during_step(partial(steps_since, step=watch.drawing.next_step))
    drawn = await watch.drawing.draw(viewer.id, viewer.look, chunks)
    return b"event: picture\ndata: " + drawn + b"\n\n"


def event(name: str, body: dict[str, Any]) -> bytes:
    """Return an object as a named event."""
    return f"event: {name}\ndata: {json.dumps(body, separators=(',', ':'))}\n\n".encode()
