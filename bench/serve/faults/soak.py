"""Steady load for minutes, a tenth of which hangs up: does the server's memory grow?"""

import asyncio
import time
from collections.abc import Sequence

import numpy as np

from bench.serve.faults.site import Site
from bench.serve.faults.streams import hang_up
from bench.serve.faults.tally import Tally

AT_ONCE = 16
HANG_UP_EVERY = 10
MAX_GROWTH = 0.02
"""A leak of a kilobyte per request grows faster than this share of the memory, over the whole time."""
SAMPLE_SECONDS = 0.5
FEWEST_SAMPLES = 20


async def soak(site: Site) -> Tally:
    """Ask for `minutes` and sample the memory; it is flat if the trend of the second half grows by at most 2%."""
    tally, samples = Tally(), list[tuple[float, float]]()
    start = time.monotonic()
    end = start + 60 * site.sizes.minutes

    async def work() -> None:
        while time.monotonic() < end:
            [question] = site.drawn(site.questions.usual, 1)
            if site.rng.randrange(HANG_UP_EVERY) == 0:
                await hang_up(site, tally, question)
            else:
                tally.take(question, await site.ask(question))

    async def watch() -> None:
        while time.monotonic() < end:
            samples.append((time.monotonic() - start, site.server.resources().rss))
            await asyncio.sleep(SAMPLE_SECONDS)

    await asyncio.gather(watch(), *(work() for _ in range(AT_ONCE)))
    if len(samples) >= FEWEST_SAMPLES and (growth := growth_of(samples)) > MAX_GROWTH:
        tally.problems[f"the memory grew by {growth:.1%} in the second half"] += 1
    return tally


def growth_of(samples: Sequence[tuple[float, float]]) -> float:
    """Return by which share of the memory its trend (least squares) grows over the second half of the samples."""
    half = np.array(samples[len(samples) // 2 :])
    slope = np.polyfit(half[:, 0], half[:, 1], 1)[0]
    return float(slope * (half[-1, 0] - half[0, 0]) / half[:, 1].mean())
