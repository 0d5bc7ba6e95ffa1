"""A runner that raises in every 50th step: its requests end with an error, and only they."""

import asyncio
import json

from bench.serve.faults.site import Site
from bench.serve.faults.tally import Tally

AT_ONCE = 8


async def failing_runner(site: Site) -> Tally:
    """Ask while steps fail. Whatever completes must be right, and the engine must then be empty and consistent."""
    tally = Tally()
    await site.ask_all(tally, site.drawn(site.questions.usual, site.sizes.failing_requests), AT_ONCE, may_fail=True)
    if tally.completed == 0:
        tally.problems["no request was completed"] += 1
    left = await site.settle()
    state = json.loads(await asyncio.to_thread(site.server.get, "/engine"))
    if state.pop("num_failures") == 0:
        tally.problems["no step failed: nothing was tested"] += 1
    tally.problems.update(f"the engine's {name} is {value}" for name, value in state.items() if value)
    if (tally.failed == 0) and not left:
        tally.problems["no request ended with an error, although steps failed"] += 1
    return tally
