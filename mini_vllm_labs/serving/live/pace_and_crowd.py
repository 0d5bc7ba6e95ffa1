"""Implements a page's two controls: the engine's pace and a crowd of synthetic requests."""

import asyncio
import random
from collections.abc import AsyncGenerator
from itertools import count
from typing import Protocol

from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams

MAX_STEPS_PER_SECOND = 100.0
MAX_PER_SECOND, MAX_AT_ONCE = 50.0, 256
NOTES = (
    "Notes: The kite of Mina is red. The drum of Ben is blue. The map of Ada is gray. The boat of Finn is green. "
    "The hat of Lily is pink. The bell of Omar is gold. ",
    "Notes: Oslo is the capital of Norway. Rome is the capital of Italy. Paris is the capital of France. Lima is the "
    "capital of Peru. Cairo is the capital of Egypt. ",
    "",
)
NAMES, THINGS = ("Mina", "Ben", "Ada", "Finn", "Lily", "Omar"), ("kite", "drum", "map", "boat", "hat", "bell")
LENGTHS = (16, 32, 64, 128)


class PacedEngine(Protocol):
    """The part of `AsyncLLM`, or of the engine in a browser tab, that the controls use."""

    config: EngineConfig
    tokenizer: Tokenizer

    @property
    def is_paused(self) -> bool: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    async def step_once(self) -> None: ...
    def generate(
        self, prompt: list[int], params: SamplingParams, request_id: str, /
    ) -> AsyncGenerator[RequestOutput, None]: ...


class Pace:
    """Controls the pace of an engine. `steps_per_second` is None at full speed and 0 while the engine is paused."""

    def __init__(self, llm: PacedEngine) -> None:
        self._llm = llm
        self.steps_per_second: float | None = None
        self._steps: asyncio.Task[None] | None = None

    def set(self, steps_per_second: float | None) -> None:
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
        """Pause the engine if it is running, then run one step."""
        self.set(0)
        await self._llm.step_once()

    async def _take_steps(self, seconds: float) -> None:
        while self._llm.is_paused:
            await self._llm.step_once()
            await asyncio.sleep(seconds)


class Crowd:
    """Sends requests at random times, some with prompts that share a prefix.

    The crowd calls the engine directly, because a browser would allow only six connections.
    """

    def __init__(self, llm: PacedEngine, seed: int | None = None) -> None:
        self._llm = llm
        self._random = random.Random(seed)
        self._numbers = count()
        self._arrivals: asyncio.Task[None] | None = None
        self._requests: set[asyncio.Task[None]] = set()  # the event loop itself keeps only weak references to tasks
        self.requests_per_second = 0.0
        self.num_refused = 0
        self.refusal = ""

    def set(self, requests_per_second: float) -> None:
        """Change the arrival rate from now on; at 0, existing requests may still finish."""
        self.requests_per_second = requests_per_second
        if self._arrivals is not None:
            self._arrivals.cancel()
        self.num_refused, self.refusal = 0, ""
        self._arrivals = asyncio.create_task(self._arrive()) if requests_per_second else None

    def send_away(self) -> None:
        """Stop sending requests and abort the unfinished ones."""
        self.set(0)
        for request in self._requests:
            request.cancel()

    async def _arrive(self) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(self.requests_per_second))
            if len(self._requests) < MAX_AT_ONCE:
                request = asyncio.create_task(self._ask(f"crowd-{next(self._numbers)}"))
                self._requests.add(request)
                request.add_done_callback(self._requests.discard)

    async def _ask(self, request_id: str) -> None:
        params = SamplingParams(max_tokens=self._random.choice(LENGTHS), temperature=0.8)
        try:
            async for _ in self._llm.generate(self._prompt(), params, request_id):
                pass
        except (ValueError, RuntimeError) as error:
            self.num_refused += 1
            self.refusal = str(error)

    def _prompt(self) -> list[int]:
        draw = self._random.choice
        text = f"{draw(NOTES)}Tell me a story about {draw(NAMES)} and a {draw(THINGS)}."
        token_ids = self._llm.tokenizer.apply_chat_template([{"role": "user", "content": text}])
        # half of the budget is left for the answer
        return token_ids[-(self._llm.config.max_model_len or len(token_ids)) // 2 :]
