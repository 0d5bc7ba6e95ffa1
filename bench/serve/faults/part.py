"""One part of the run: its requests, what the server held before and after, and what does not hold."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bench.serve.faults.memory import watched
from bench.serve.faults.site import Site
from bench.serve.faults.tally import Tally
from bench.serve.server_process import Resources

Body = Callable[[Site], Awaitable[Tally]]


@dataclass(frozen=True, slots=True)
class Part:
    """What one part found; `after` is None if the server has ended. `peak_rss` is in bytes, during the part."""

    name: str
    tally: Tally
    seconds: float
    before: Resources
    after: Resources | None
    peak_rss: int
    left: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Everything that does not hold, with how often."""
        return [f"{count} x {what}" for what, count in self.tally.problems.items()] + self.left


async def run_part(name: str, body: Body, site: Site, *, ends_server: bool = False) -> Part:
    """Run a part, wait until the server is empty again, and return what was found.

    A server that ends, though the part is not about that, or a part that cannot be run to its end, is a problem.
    """
    import psutil

    before, start = site.server.resources(), time.perf_counter()
    tally, broken = Tally(), []
    async with watched(site) as peak:
        try:
            tally = await body(site)
        except (OSError, psutil.Error) as error:
            broken.append(f"the part broke off: {type(error).__name__}: {error}")
    seconds = time.perf_counter() - start
    if not site.server.is_running:
        if not ends_server:
            broken.append(f"the server has ended: {site.server.last_words()}")
        return Part(name, tally, seconds, before, None, peak.rss, broken)
    left = await site.settle()
    return Part(name, tally, seconds, before, site.server.resources(), peak.rss, broken + left)
