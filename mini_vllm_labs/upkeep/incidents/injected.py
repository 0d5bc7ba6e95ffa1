"""Injects incidents, each on a separate server: engine settings, a slow or failing runner, and clients."""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from mini_vllm import EngineConfig, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm_labs.serving.server import RunningServer, running_server

HEALTHY = "nothing"
ROOMY = EngineConfig(num_gpu_blocks=400)
SMALL = EngineConfig(num_gpu_blocks=21)  # leaves 20 blocks for requests


@dataclass(frozen=True)
class Injected:
    """An incident and the alert that it must trigger; `HEALTHY` must not trigger any.

    `clients` is the number of clients that repeat a request with `prompt_tokens` and `max_tokens`, using the same
    prompt each time, or a different one if `unique`. A client waits for `patience` seconds. A step takes
    `step_seconds`; one in every `fails_every` steps raises an error. Two seconds after the clients start, `then` can
    "pause" the engine or "end" the server.
    """

    alert: str
    config: EngineConfig = ROOMY
    clients: int = 2
    prompt_tokens: int = 40
    max_tokens: int = 20
    unique: bool = False
    patience: float = 60.0
    step_seconds: float = 0.02
    fails_every: int = 0
    then: str = ""


INCIDENTS = (
    Injected(HEALTHY),
    Injected("EngineDown", then="end"),
    Injected("EngineStuck", max_tokens=400, then="pause"),
    Injected("QueueLong", EngineConfig(num_gpu_blocks=400, max_num_seqs=1), clients=20),
    Injected("KVCacheFull", SMALL, clients=4, prompt_tokens=130, max_tokens=30, unique=True, step_seconds=0.05),
    Injected("Preempting", SMALL, clients=4, prompt_tokens=60, max_tokens=100, unique=True),
    Injected("PrefixCacheMisses", prompt_tokens=320, max_tokens=4, unique=True),
    Injected("ClientsHangUp", max_tokens=200, patience=0.5),
    Injected("RequestsFail", fails_every=40),
    Injected("SlowTokens", step_seconds=0.3),
    Injected(
        "SlowPrefill",
        EngineConfig(num_gpu_blocks=400, max_num_batched_tokens=16),
        clients=1,
        prompt_tokens=1500,
        max_tokens=2,
        unique=True,
    ),
)


@dataclass
class SlowRunner:
    """A runner whose steps take as long and fail as often as the incident requires."""

    runner: ModelRunner
    incident: Injected
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def vocab_size(self) -> int:
        return self.runner.vocab_size

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        time.sleep(self.incident.step_seconds)
        if self.incident.fails_every and next(self.numbers) % self.incident.fails_every == 0:
            raise RuntimeError("injected failure")
        return self.runner.execute_model(batch)


class Site:
    """A server and its incident."""

    def __init__(self, incident: Injected) -> None:
        self.incident, self._stack = incident, ExitStack()
        engine = build_engine(incident.config, parse_lineup("solution:1-5"))
        engine.runner = SlowRunner(engine.runner, incident)
        self.server: RunningServer = self._stack.enter_context(running_server(AsyncLLM(engine)))
        self.target = self.server.address.removeprefix("http://")
        self._prompts = (chr(97 + number % 26) + f"{number:05}" for number in itertools.count())

    def close(self) -> None:
        self.server.llm.resume()
        self._stack.close()

    async def suffer(self) -> None:
        """Run the incident until the task is cancelled."""
        async with httpx.AsyncClient(timeout=self.incident.patience) as client, asyncio.TaskGroup() as tasks:
            for _ in range(self.incident.clients):
                tasks.create_task(self._repeat(client))
            await asyncio.sleep(2)
            if self.incident.then == "pause":
                self.server.llm.pause()
            if self.incident.then == "end":
                self.server.server.should_exit = True

    async def _repeat(self, client: httpx.AsyncClient) -> None:
        while True:
            try:
                await client.post(f"{self.server.base_url}/completions", json=self._fields())
            except httpx.HTTPError:
                await asyncio.sleep(0.1)  # the server has disconnected or stopped

    def _fields(self) -> dict[str, Any]:
        start = next(self._prompts) if self.incident.unique else ""
        prompt = start.ljust(self.incident.prompt_tokens, "x")
        return {"model": "mini-vllm", "prompt": prompt, "max_tokens": self.incident.max_tokens, "ignore_eos": True}


@contextmanager
def sites() -> Iterator[list[Site]]:
    """Start one server per incident; each incident starts only when `suffer` is called."""
    opened = [Site(incident) for incident in INCIDENTS]
    try:
        yield opened
    finally:
        for site in opened:
            site.close()
