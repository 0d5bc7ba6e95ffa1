"""Manages the open pages, the drawing process that exists while pages are open, and each page's events."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from mini_vllm_labs.serving.answers import START
from mini_vllm_labs.serving.errors import ApiError
from mini_vllm_labs.serving.limits import ended_by_disconnect
from mini_vllm_labs.serving.live.drawing_process import DrawingEndedError, DrawingProcess, WantedPicture
from mini_vllm_labs.serving.live.pace_and_crowd import Crowd, Pace
from mini_vllm_labs.serving.live.recent_steps import facts_of, progress_of, steps_since
from mini_vllm_labs.serving.served_model import ServedModel

MAX_PAGES = 8
PERIOD = 1 / 8
SILENCE = 15.0  # proxies drop silent connections, so the server-sent events standard recommends sending this
AFTER_FAILURE = 1.0  # without a pause, a drawing process that fails immediately would be restarted in a loop
COMMENT = b":\n\n"


@dataclass
class Viewer:
    """An open page, and the picture that it wants. Setting `changed` wakes its stream."""

    look: WantedPicture
    id: str = field(default_factory=lambda: uuid4().hex)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class OpenPages:
    """Manages the open pages and one drawing process for all of them.

    When the last page closes, the drawing process exits, the crowd stops and the engine runs at full speed, because
    there is no page left to resume it.
    """

    def __init__(self, served: ServedModel) -> None:
        self.served = served
        self.pace, self.crowd = Pace(served.llm), Crowd(served.llm)
        self.facts: dict[str, Any] = {}
        self._viewers: dict[str, Viewer] = {}
        self._progress = {"newest": -1, "oldest": 0, "num_arrived": 0, "preempted": -1}
        self._drawing: DrawingProcess | None = None

    async def open(self, look: WantedPicture) -> Viewer:
        """Open a new page. Raises `ApiError` (503) if eight pages are already open."""
        if len(self._viewers) >= MAX_PAGES:
            message = f"{MAX_PAGES} pages watch this engine already: close one of them"
            raise ApiError(503, message, type="service_unavailable_error", code="too_many_pages")
        if not self.facts:
            self.facts = await self.served.llm.call_during_step(facts_of)
        viewer = Viewer(look)
        self._viewers[viewer.id] = viewer
        return viewer

    async def close(self, viewer: Viewer) -> None:
        del self._viewers[viewer.id]
        if self._viewers:
            await self.drawing.forget(viewer.id)
            return
        self.crowd.send_away()
        self.pace.set(None)
        drawing, self._drawing = self._drawing, None  # must come first, because a page may be opened during the await
        if drawing is not None:
            await drawing.close()

    async def require_page(self) -> None:
        """Raise `ApiError` (409) if no page is open, because then no page could show or undo the change."""
        if not self._viewers:
            raise ApiError(409, "no page is open: open the page at / first", code="no_page")

    def viewer(self, viewer_id: str) -> Viewer:
        """Return the page with a given id. Raises `ApiError` (404) if the page is not open."""
        if viewer_id not in self._viewers:
            raise ApiError(404, "this page is no longer open: reload it", param="viewer", code="page_not_open")
        return self._viewers[viewer_id]

    @property
    def drawing(self) -> DrawingProcess:
        if self._drawing is None:
            self._drawing = DrawingProcess(self.facts)
        return self._drawing

    async def status(self) -> dict[str, Any]:
        """Return the status to show with a page's picture, or the last known status if the engine has stopped."""
        with suppress(EngineDeadError, ShuttingDownError):
            self._progress = await self.served.llm.call_during_step(progress_of)
        return {
            "is_alive": self.served.llm.is_alive,
            "reason": self.served.llm.reason_of_death,
            "notice": self.served.llm.notice,
            "steps_per_second": self.pace.steps_per_second,
            "requests_per_second": self.crowd.requests_per_second,
            "num_refused": self.crowd.num_refused,
            "refusal": self.crowd.refusal,
            "num_unfinished": self.served.llm.num_unfinished_requests,
            **self._progress,
        }


class LiveStream(Response):
    """Sends events until the page closes. Draws a picture only after the page has received the previous one."""

    def __init__(self, pages: OpenPages, viewer: Viewer) -> None:
        super().__init__()
        self._pages, self._viewer = pages, viewer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with ended_by_disconnect(receive):
                await send(START)
                async for event in live_events(self._pages, self._viewer):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._pages.close(self._viewer)


async def live_events(pages: OpenPages, viewer: Viewer) -> AsyncIterator[bytes]:
    """Yield a page's events until the server stops: up to eight pictures per second, and only when something
    changes."""
    yield event("hello", {"viewer": viewer.id, "model": pages.served.name, **pages.facts})
    status: dict[str, Any] = {}
    sent: tuple[int, WantedPicture] | None = None
    quiet = 0.0
    while not pages.served.llm.is_shutting_down:
        viewer.changed.clear()  # must come before the status is read, so that a later change wakes the wait below
        before, status = status, await pages.status()
        wanted = status["newest"] if viewer.look.step is None else viewer.look.step, viewer.look
        quiet += PERIOD
        if status != before:
            yield event("status", status)
            quiet = 0
        if status["newest"] >= 0 and wanted != sent:
            try:
                yield await picture(pages, viewer)
                sent = wanted
            except DrawingEndedError as error:
                yield event("failure", {"message": str(error)})
                await asyncio.sleep(AFTER_FAILURE)
            except (EngineDeadError, ShuttingDownError):  # the status reports this; the last picture stays on the page
                sent = wanted
            quiet = 0
        elif quiet >= SILENCE:
            yield COMMENT
            quiet = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(PERIOD):
                await viewer.changed.wait()
    yield event("end", {"message": "the server is shutting down"})


async def picture(pages: OpenPages, viewer: Viewer) -> bytes:
    """Return the event that sends a picture. Raises `DrawingEndedError` if the drawing process has exited."""
    chunks = await pages.served.llm.call_during_step(partial(steps_since, step=pages.drawing.next_step))
    drawn = await pages.drawing.draw(viewer.id, viewer.look, chunks)
    return b"event: picture\ndata: " + drawn + b"\n\n"


def event(name: str, body: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(body, separators=(',', ':'))}\n\n".encode()
