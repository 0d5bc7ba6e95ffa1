"""Engines for asyncio tasks, on a thread or in a process, and the tasks that read their outputs."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from mini_vllm import EngineConfig, RequestOutput, SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.engine_process import EngineProcess
from mini_vllm.engine.llm_engine import LLMEngine

Result = TypeVar("Result")
HOSTS = ("thread", "process")
LINEUP = parse_lineup("solution:1-5")
CONFIG = EngineConfig(
    num_gpu_blocks=64, block_size=4, max_num_waiting=6, enable_prefix_caching=False, check_invariants=True
)
PROMPTS = ["once upon a time", "the lamp", "a cup of tea and a cake", "once upon a time there was"]


class FaultyRunner:
    """Misbehaves on prompts with certain tokens: never returns, or exits the process."""

    NEVER_ENDS, EXITS = 201, 202

    def __init__(self, inner: ModelRunner) -> None:
        self.inner, self.vocab_size = inner, inner.vocab_size

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        seen = {token_id for one in batch for token_id in one.request.prompt_token_ids}
        while self.NEVER_ENDS in seen:
            time.sleep(0.01)
        if self.EXITS in seen:
            os._exit(7)
        return self.inner.execute_model(batch)


def open_engine() -> LLMEngine:
    engine = build_engine(CONFIG, LINEUP)
    engine.runner = FaultyRunner(engine.runner)
    return engine


def make_llm(host: str) -> AsyncLLM:
    return AsyncLLM(open_engine if host == "process" else open_engine())


@contextmanager
def opened(host: str) -> Iterator[AsyncLLM]:
    llm = make_llm(host)
    yield llm
    asyncio.run(llm.shutdown(10))
    assert not llm.is_alive


def require_idle(llm: AsyncLLM) -> None:
    """Resume the engine, and check that no request, block, partial output or call is left."""
    llm.resume()
    assert asyncio.run(llm.call(held)) == (0, 0, 63)
    if isinstance(llm._host, EngineProcess):
        assert llm._host._pieces._joined == {}
        assert llm._host._pending == {}


def held(engine: LLMEngine) -> tuple[int, int, int]:
    return len(engine.processor.states), len(engine.scheduler.requests), engine.scheduler.kv.num_free_blocks


def run(work: Awaitable[Result]) -> Result:
    async def limited() -> Result:
        return await asyncio.wait_for(work, 60)

    return asyncio.run(limited())


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.001)


async def outputs_of(stream: AsyncIterator[RequestOutput]) -> list[RequestOutput]:
    return [output async for output in stream]


async def text_of(llm: AsyncLLM, prompt: str, name: str, max_tokens: int = 20) -> str:
    outputs = await outputs_of(llm.generate(prompt, SamplingParams(max_tokens), name))
    assert "".join(output.new_text for output in outputs) == outputs[-1].outputs[0].text
    return outputs[-1].outputs[0].text


async def waiting(
    llm: AsyncLLM, prompt: str | list[int], max_tokens: int = 20, name: str = "a"
) -> "asyncio.Task[list[RequestOutput]]":
    llm.pause()
    task = asyncio.create_task(outputs_of(llm.generate(prompt, SamplingParams(max_tokens), name)))
    await until(lambda: name in llm._collectors)
    return task
