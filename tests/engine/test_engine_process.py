"""Tests what an engine in a process adds: pickles, a pipe, and how processes end."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psutil
import pytest

from mini_vllm import EngineConfig, RequestOutput, SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.engine import async_llm
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.engine_process import EngineProcess
from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from mini_vllm.engine.llm_engine import LLMEngine
from tests.engine.async_engines import (
    PROMPTS,
    FaultyRunner,
    held,
    make_llm,
    opened,
    outputs_of,
    require_idle,
    run,
    text_of,
    until,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[AsyncLLM]:
    with opened("process") as llm:
        yield llm


@pytest.fixture
def llm(shared: AsyncLLM) -> Iterator[AsyncLLM]:
    yield shared
    require_idle(shared)


def host_of(llm: AsyncLLM) -> EngineProcess:
    assert isinstance(llm._host, EngineProcess)
    return llm._host


async def all_outputs(llm: AsyncLLM, params: SamplingParams) -> list[list[RequestOutput]]:
    prompts: list[str | list[int]] = [*PROMPTS, [5, 6, 7]]
    llm.pause()
    streams = [llm.generate(prompt, params, f"r{index}") for index, prompt in enumerate(prompts)]
    reading = [asyncio.create_task(outputs_of(stream)) for stream in streams]
    await until(lambda: llm.num_unfinished_requests == len(prompts))
    while llm.num_unfinished_requests:
        await llm.step_once()
        await asyncio.sleep(0.002)
    llm.resume()
    return await asyncio.gather(*reading)


@pytest.mark.parametrize("logprobs", [None, 2])
def test_outputs_equal_those_of_an_engine_on_a_thread(llm: AsyncLLM, logprobs: int | None) -> None:
    params = SamplingParams(12, logprobs=logprobs, stop=("qu",), ignore_eos=True)

    async def on_a_thread() -> list[list[RequestOutput]]:
        local = make_llm("thread")
        outputs = await all_outputs(local, params)
        await local.shutdown()
        return outputs

    expected, found = run(on_a_thread()), run(all_outputs(llm, params))
    assert min(map(len, expected)) > 3
    for theirs, ours in zip(expected, found, strict=True):
        assert list(map(without_times, ours)) == list(map(without_times, theirs))


def without_times(output: RequestOutput) -> tuple[Any, ...]:
    metrics = output.metrics
    counts = metrics.num_output_tokens, metrics.num_preemptions, metrics.num_cached_tokens
    parts = output.request_id, output.prompt, output.prompt_token_ids, output.outputs, output.new_text
    return *parts, output.num_new_tokens, output.error, counts


class UnpicklableError(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def raise_unpicklable(engine: LLMEngine) -> None:
    raise UnpicklableError("first", "second")


def return_unpicklable(engine: LLMEngine) -> Any:
    return lambda: None


def test_an_unpicklable_value_is_named(llm: AsyncLLM) -> None:
    with pytest.raises(RuntimeError, match="UnpicklableError: first and second"):
        run(llm.call(raise_unpicklable))
    with pytest.raises(RuntimeError, match="pickle"):
        run(llm.call(return_unpicklable))
    with pytest.raises(Exception, match="pickle"):
        run(llm.call(lambda engine: None))
    assert run(llm.call(held))[:2] == (0, 0)


def echo(engine: LLMEngine, content: bytes) -> bytes:
    return content


def test_messages_larger_than_the_pipe_cross_without_deadlock(llm: AsyncLLM) -> None:
    """Calls and results of 4 MB from several threads at the same time: neither end may wait for the other."""
    contents = [bytes([number]) * 4_000_000 for number in range(4)]

    def ask(content: bytes) -> bool:
        calls = [host_of(llm).call, host_of(llm).call_during_step]
        return all(calls[number % 2](partial(echo, content=content)).result(60) == content for number in range(10))

    with ThreadPoolExecutor(len(contents)) as pool:
        assert all(pool.map(ask, contents, timeout=60))


def test_the_engine_process_survives_ctrl_c_and_sigterm(llm: AsyncLLM) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(host_of(llm)._process.pid or 0, number)
    assert len(run(text_of(llm, PROMPTS[0], "after", 3))) == 3


def open_no_engine() -> LLMEngine:
    raise KeyError("what is missing")


def test_an_engine_that_cannot_be_opened_gives_the_reason() -> None:
    with pytest.raises(ValueError, match="no/such/model"):
        AsyncLLM(partial(build_engine, EngineConfig(), parse_lineup("solution"), "no/such/model"))
    with pytest.raises(EngineDeadError, match="code 3"):
        AsyncLLM(partial(os._exit, 3))
    with pytest.raises(KeyError, match="what is missing") as raised:
        AsyncLLM(open_no_engine)
    assert vars(raised.value)["remote_frames"][-1].name == "open_no_engine", "a learner reads where it was raised"


def test_if_the_process_ends_all_readers_and_callers_fail() -> None:
    async def die() -> None:
        llm = make_llm("process")
        reading = asyncio.create_task(outputs_of(llm.generate([FaultyRunner.EXITS], SamplingParams(3), "a")))
        with pytest.raises(EngineDeadError, match="process has exited with code 7"):
            await reading
        assert not llm.is_alive
        with pytest.raises(EngineDeadError):
            await text_of(llm, PROMPTS[0], "b")
        with pytest.raises(EngineDeadError):
            await llm.call_during_step(held)
        llm.pause()
        llm.resume()
        await llm.shutdown()

    run(die())


@pytest.mark.parametrize("host", ["thread", "process"])
def test_the_reason_is_known_as_soon_as_the_engine_is_dead(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[tuple[bool, str]]()
    monkeypatch.setattr(AsyncLLM, "_fail_all", lambda llm, _: seen.append((llm.is_alive, llm.reason_of_death)))

    async def die() -> None:
        llm = make_llm(host)
        llm._host.give_up("it waits for itself")
        await llm.shutdown()

    run(die())
    assert seen == [(False, "it waits for itself")]


def test_a_step_that_does_not_end_is_seen_and_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_llm, "SECONDS_FOR_LAST_STEP", 0.05)
    llm = make_llm("process")
    process = psutil.Process(host_of(llm)._process.pid)

    async def hang() -> None:
        stuck = asyncio.create_task(outputs_of(llm.generate([FaultyRunner.NEVER_ENDS], SamplingParams(3), "a")))
        await until(lambda: llm.seconds_in_step > 0.05)
        assert await llm.call_during_step(held) == (1, 1, 62), "one may look in the middle of a step"
        with pytest.raises(TimeoutError, match="not finished after 0"):
            await outputs_of(llm.generate(PROMPTS[1], SamplingParams(), "b", timeout=0.05))
        waiting = asyncio.create_task(llm.call(held))
        await llm.shutdown(0.0)
        host_of(llm)._reader.join(10)  # this thread has already reported the killed process's exit code
        with pytest.raises(EngineDeadError, match="in a step"):
            await stuck
        assert "in a step" in llm.reason_of_death
        with pytest.raises(ShuttingDownError):
            await waiting

    run(hang())
    process.wait(10)


LEFT_OPEN = """
import asyncio, sys, time
from functools import partial
from mini_vllm import EngineConfig, SamplingParams, parse_lineup
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.assembly.build import build_engine

async def main():
    llm = AsyncLLM(partial(build_engine, EngineConfig(num_gpu_blocks=64), parse_lineup("solution:1-5")))
    stream = llm.generate("once", SamplingParams(500, ignore_eos=True), "a")
    await anext(stream)
    print(llm._host._process.pid, flush=True)
    time.sleep(float(sys.argv[1]))

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_engine_does_not_outlive_its_server(is_killed: bool, tmp_path: Any) -> None:
    script = tmp_path / "left_open.py"
    script.write_text(LEFT_OPEN)
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    with subprocess.Popen(
        [sys.executable, script, "60" if is_killed else "0"], env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        if is_killed:
            server.kill()
        server.wait(30)
    deadline = time.monotonic() + 20
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
