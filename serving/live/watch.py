"""The pages that are open, and what there is only while one is."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from mini_vllm.engine.llm_engine import LLMEngine
from serving.errors import ApiError
from serving.live.crowd import Crowd
from serving.live.drawing.look import Look
from serving.live.drawing_process import DrawingProcess
from serving.live.pace import Pace
from serving.live.recent_steps import RecentSteps, recent_steps_of
from serving.served_model import ServedModel

MOST_PAGES = 8


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
        self._recent: RecentSteps | None = None
        self._drawing: DrawingProcess | None = None

    @property
    def recent(self) -> RecentSteps:
        assert self._recent is not None
        return self._recent

    async def open(self, look: Look) -> Viewer:
        """Return a new page. Raises `ApiError` (503) if there are eight already."""
        if len(self._viewers) >= MOST_PAGES:
            message = f"{MOST_PAGES} pages watch this engine already: close one of them"
            raise ApiError(503, message, type="service_unavailable_error", code="too_many_pages")
        if self._recent is None:
            self._recent, self.facts = await self.served.llm.call(recent_and_facts)
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

    def status(self) -> dict[str, Any]:
        """Return what a page shows besides the picture."""
        num_steps = self.recent.chunks.num_steps
        return {
            "is_alive": self.served.llm.is_alive,
            "steps_per_second": self.pace.steps_per_second,
            "requests_per_second": self.crowd.requests_per_second,
            "num_refused": self.crowd.num_refused,
            "refusal": self.crowd.refusal,
            "num_arrived": self.recent.num_arrived,
            "num_unfinished": self.served.llm.num_unfinished_requests,
            "newest": num_steps - 1,
            "oldest": self.recent.chunks.oldest,
        }


def recent_and_facts(engine: LLMEngine) -> tuple[RecentSteps, dict[str, Any]]:
    """Return the steps of an engine and its constants. Called on the engine's thread."""
    config, kv = engine.config, engine.scheduler.kv
    speculative = config.speculative_config
    return recent_steps_of(engine), {
        "num_blocks": kv.num_usable_blocks,
        "block_size": kv.block_size,
        "token_budget": config.max_num_batched_tokens,
        "most_running": config.max_num_seqs,
        "prefix_caching": config.enable_prefix_caching,
        "num_drafts": speculative.num_speculative_tokens if speculative else 0,
    }
