"""What a client no longer waits for is no longer computed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Receive


@asynccontextmanager
async def ended_by_disconnect(receive: Receive) -> AsyncIterator[None]:
    """Run the block, and end it at its next `await` if the client goes away, as `asyncio.timeout` does after a time.

    The body of the request must have been read. The block ends silently: nobody is there to be told.
    """
    task = asyncio.current_task()
    assert task is not None
    is_gone = False

    async def watch() -> None:
        nonlocal is_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not is_gone or task.uncancel() > 0:
            raise
    finally:
        watcher.cancel()
