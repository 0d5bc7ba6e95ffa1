"""How fast the engine may go: as fast as it can, some steps per second, or only when a step is asked for."""

import asyncio

from mini_vllm.engine.async_llm import AsyncLLM

MAX_STEPS_PER_SECOND = 100.0


class Pace:
    """Sets the pace of an engine. `steps_per_second` is None at full speed and 0 while it is paused."""

    def __init__(self, llm: AsyncLLM) -> None:
        self._llm = llm
        self.steps_per_second: float | None = None
        self._steps: asyncio.Task[None] | None = None

    def set(self, steps_per_second: float | None) -> None:
        """Change the pace from now on."""
        self.steps_per_second = steps_per_second
        if self._steps is not None:
            self._steps.cancel()
            self._steps = None
        if steps_per_second is None:
            self._llm.resume()
            return
        self._llm.pause()
        if steps_per_second:
            self._steps = asyncio.create_task(self._take_steps(1 / steps_per_second))

    async def step(self) -> None:
        """Take one step. At any other pace the engine is paused first."""
        self.set(0)
        await self._llm.step_once()

    async def _take_steps(self, seconds: float) -> None:
        while self._llm.is_paused:
            await self._llm.step_once()
            await asyncio.sleep(seconds)
