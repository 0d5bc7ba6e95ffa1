"""Our server with a runner that raises in every 50th step: `python -m bench.serve.faulty_server SETTINGS PORT`.

`GET /engine` says what the engine itself holds, asked on its own thread.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from fastapi import FastAPI

from bench.backend import Settings
from bench.serve.engine_config import engine_config
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.invariants import check_state
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.llm_engine import LLMEngine
from serving.server import bound_socket, engine_server
from serving.settings import ServerSettings, allow_many_connections

FAILS_EVERY = 50


class FailingRunner:
    """Raises in place of every `FAILS_EVERY`th forward pass."""

    def __init__(self, inner: ModelRunner) -> None:
        self.inner, self.vocab_size = inner, inner.vocab_size
        self.num_calls = 0

    @property
    def num_failures(self) -> int:
        return self.num_calls // FAILS_EVERY

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        self.num_calls += 1
        if self.num_calls % FAILS_EVERY == 0:
            raise RuntimeError(f"injected fault: forward pass {self.num_calls}")
        return self.inner.execute_model(batch)


@dataclass(frozen=True, slots=True)
class EngineState:
    """What an engine holds between two steps; `broken_invariant` is empty if its state is consistent."""

    num_running: int
    num_waiting: int
    num_requests: int
    num_texts: int
    num_used_blocks: int
    num_failures: int
    broken_invariant: str


def engine_state(engine: LLMEngine) -> EngineState:
    """Return what an engine holds. Called on its thread."""
    scheduler, runner = engine.scheduler, engine.runner
    assert isinstance(runner, FailingRunner)
    try:
        check_state(scheduler, engine.config.policy)
        broken = ""
    except AssertionError as error:
        broken = str(error)
    return EngineState(
        len(scheduler.running),
        len(scheduler.waiting),
        len(scheduler.requests),
        len(engine.processor.states),
        scheduler.kv.num_usable_blocks - scheduler.kv.num_free_blocks,
        runner.num_failures,
        broken,
    )


def open_faulty_engine(settings: Settings) -> LLMEngine:
    """Return an engine whose runner fails now and then."""
    engine = build_engine(engine_config(settings), parse_lineup(settings.lineup), settings.model or None)
    engine.runner = FailingRunner(engine.runner)
    return engine


def main(settings_text: str, port: str) -> None:
    """Serve until a signal ends it."""
    allow_many_connections()
    server_settings = ServerSettings(port=int(port))
    llm = AsyncLLM(partial(open_faulty_engine, Settings(**json.loads(settings_text))))
    server = engine_server(llm, server_settings)

    async def show_engine() -> dict[str, object]:
        return asdict(await llm.call(engine_state))

    app = server.config.app
    assert isinstance(app, FastAPI)
    app.add_api_route("/engine", show_engine)
    server.run([bound_socket(server_settings)])


if __name__ == "__main__":
    main(*sys.argv[1:])
