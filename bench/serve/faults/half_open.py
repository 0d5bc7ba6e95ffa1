"""A thousand connections that say nothing, half a header or half a body, while others are answered."""

import asyncio
from contextlib import suppress

from bench.serve.faults.site import Site
from bench.serve.faults.tally import Tally

NUM_BESIDE = 20
DEADLINE = 90.0
"""More than the server's own limits on headers and bodies."""
OPENINGS = (
    b"",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Ty",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
)


async def half_open(site: Site) -> Tally:
    """Open the connections, ask others meanwhile, then wait until the server has closed every one.

    A trial run gives them up itself. All count as aborted; one that the server has not closed is a problem.
    """
    tally = Tally()
    opened = await asyncio.gather(*(open_half(site, number) for number in range(site.sizes.half_open)))
    connections = [each for each in opened if each is not None]
    if len(connections) < len(opened):
        tally.problems["a connection was not accepted"] += len(opened) - len(connections)
    tally.requests += len(connections)
    tally.aborted += len(connections)
    await site.ask_all(tally, site.drawn(site.questions.usual, NUM_BESIDE), NUM_BESIDE)
    if site.sizes.waits_for_deadlines:
        num_left = sum(await asyncio.gather(*(is_still_open(reader) for reader, _ in connections)))
        if num_left:
            tally.problems[f"a half-open connection was not closed within {DEADLINE:g} seconds"] += num_left
    for _, writer in connections:
        writer.transport.abort()
    return tally


async def open_half(site: Site, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """Open one connection and send what it begins with; None if it is not accepted."""
    try:
        reader, writer = await asyncio.open_connection(site.endpoint.host, site.endpoint.port)
        writer.write(OPENINGS[number % len(OPENINGS)])
    except OSError:
        return None
    return reader, writer


async def is_still_open(reader: asyncio.StreamReader) -> bool:
    """Return whether the server has still not closed a connection at the deadline."""
    with suppress(OSError):
        try:
            async with asyncio.timeout(DEADLINE):
                while await reader.read(1 << 16):
                    pass
        except TimeoutError:
            return True
    return False
