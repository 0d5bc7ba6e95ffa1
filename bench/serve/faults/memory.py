"""The server's memory, sampled while something happens."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from bench.serve.faults.site import Site

SAMPLE_SECONDS = 0.1


@dataclass(slots=True)
class Peak:
    """The largest memory seen, in bytes."""

    rss: int = 0


@asynccontextmanager
async def watched(site: Site) -> AsyncIterator[Peak]:
    """Sample the server's memory during the block."""
    import psutil

    peak = Peak()

    async def watch() -> None:
        with suppress(psutil.Error):  # the process may end at any moment
            while site.server.is_running:
                peak.rss = max(peak.rss, site.server.resources().rss)
                await asyncio.sleep(SAMPLE_SECONDS)

    watching = asyncio.create_task(watch())
    try:
        yield peak
    finally:
        watching.cancel()
