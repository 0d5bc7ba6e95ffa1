"""The pages that are open, and what there is only while one is."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from serving.errors import ApiError
from serving.live.crowd import Crowd
from serving.live.drawing.look import Look
from serving.live.drawing_process import DrawingProcess
from serving.live.pace import Pace
from serving.live.seen import Seen, facts_of, seen_of
from serving.served_model import ServedModel

MAX_PAGES = 8


@dataclass
class Viewer:
    """A page: what it looks at. `changed` wakes its stream."""

    look: Look
    id: str = field(default_factory=lambda: uuid4().hex)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Watch:
    """Keeps the pages, and one drawing for all of them.

    When the last page closes, the drawing ends, the crowd goes away and the engine runs at full speed: no page would be
    left to let it go on.
    """

    def __init__(self, served: ServedModel, new_drawing: Callable[[dict[str, Any]], DrawingProcess]) -> None:
        self.served = served
        self.pace, self.crowd = Pace(served.llm), Crowd(served.llm)
        self.facts: dict[str, Any] = {}
        self._new_drawing = new_drawing
        self._viewers: dict[str, Viewer] = {}
        self._seen = Seen()
        self._drawing: DrawingProcess | None = None

    async def open(self, look: Look) -> Viewer:
        """Return a new page. Raises `ApiError` (503) if there are eight already."""
        if len(self._viewers) >= MAX_PAGES:
            message = f"{MAX_PAGES} pages watch this engine already: close one of them"
            raise ApiError(503, message, type="service_unavailable_error", code="too_many_pages")
        if not self.facts:
            self.facts = await self.served.llm.call_during_step(facts_of)
        viewer = Viewer(look)
        self._viewers[viewer.id] = viewer
        return viewer

    async def close(self, viewer: Viewer) -> None:
        """Forget a page."""
        del self._viewers[viewer.id]
        if self._viewers:
            await self.drawing.forget(viewer.id)
            return
        self.crowd.send_away()
        self.pace.set(None)
        drawing, self._drawing = self._drawing, None
        if drawing is not None:
            await drawing.close()

    async def require_page(self) -> None:
        """Raise `ApiError` (409) if no page is open: none would show what is asked for, or end it."""
        if not self._viewers:
            raise ApiError(409, "no page is open: open the page at / first", code="no_page")

    def viewer(self, viewer_id: str) -> Viewer:
        """Return a page. Raises `ApiError` (404) for one that is not open."""
        if viewer_id not in self._viewers:
            raise ApiError(404, "this page is not open any more: load it again", param="viewer", code="page_not_open")
        return self._viewers[viewer_id]

    @property
    def drawing(self) -> DrawingProcess:
        """The drawing for all pages, a new one if there is none."""
        if self._drawing is None:
            self._drawing = self._new_drawing(self.facts)
        return self._drawing

    async def status(self) -> dict[str, Any]:
        """Return what a page shows besides the picture. Of an engine that has ended, it is what was seen last."""
        with suppress(EngineDeadError, ShuttingDownError):
            self._seen = await self.served.llm.call_during_step(seen_of)
        return {
            "is_alive": self.served.llm.is_alive,
            "steps_per_second": self.pace.steps_per_second,
            "requests_per_second": self.crowd.requests_per_second,
            "num_refused": self.crowd.num_refused,
            "refusal": self.crowd.refusal,
            "num_arrived": self._seen.num_arrived,
            "num_unfinished": self.served.llm.num_unfinished_requests,
            "newest": self._seen.newest,
            "oldest": self._seen.oldest,
        }
