"""An engine in a process of its own: the same outputs, and what becomes of readers, callers and processes."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import psutil
import pytest

from mini_vllm import EngineConfig, RequestOutput, SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine import async_llm
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.engine_process import EngineProcess
from mini_vllm.engine.errors import EngineDeadError, QueueFullError, ShuttingDownError
from mini_vllm.engine.llm_engine import LLMEngine

Result = TypeVar("Result")
LINEUP = parse_lineup("solution:1-5")
CONFIG = EngineConfig(
    num_gpu_blocks=64, block_size=4, max_num_waiting=6, enable_prefix_caching=False, check_invariants=True
)
PROMPTS: list[str | list[int]] = [
    "once upon a time",
    [5, 6, 7],
    "a cup of tea and a cake",
    "once upon a time there was",
]
open_engine = partial(build_engine, CONFIG, LINEUP)


class FaultyRunner:
    """Does something else for a prompt with a token of its own: raises, never ends, or ends the process."""

    RAISES, NEVER_ENDS, EXITS = 200, 201, 202

    def __init__(self, inner: ModelRunner) -> None:
        self.inner, self.vocab_size = inner, inner.vocab_size

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        seen = {token_id for one in batch for token_id in one.request.prompt_token_ids}
        if self.RAISES in seen:
            raise OSError("the device is gone")
        while self.NEVER_ENDS in seen:
            time.sleep(0.01)
        if self.EXITS in seen:
            os._exit(7)
        return self.inner.execute_model(batch)


def open_faulty_engine() -> LLMEngine:
    engine = build_engine(CONFIG, LINEUP)
    engine.runner = FaultyRunner(engine.runner)
    return engine


@pytest.fixture(scope="module")
def shared() -> Iterator[AsyncLLM]:
    """One engine for the tests that leave it as it was."""
    llm = AsyncLLM(open_faulty_engine)
    yield llm
    asyncio.run(llm.shutdown(10))
    assert not llm.is_alive


@pytest.fixture
def llm(shared: AsyncLLM) -> Iterator[AsyncLLM]:
    yield shared
    state = asyncio.run(shared.call(held))
    assert state == (0, 0, 63), "no request and no block is left"
    assert host_of(shared)._pieces._joined == {}, "nor a piece of an output"
    assert host_of(shared)._pending == {}


def held(engine: LLMEngine) -> tuple[int, int, int]:
    return len(engine.processor.states), len(engine.scheduler.requests), engine.scheduler.kv.num_free_blocks


def host_of(llm: AsyncLLM) -> EngineProcess:
    assert isinstance(llm._host, EngineProcess)
    return llm._host


def run(work: Awaitable[Result]) -> Result:
    async def limited() -> Result:
        return await asyncio.wait_for(work, 60)

    return asyncio.run(limited())


async def outputs_of(stream: AsyncIterator[RequestOutput]) -> list[RequestOutput]:
    return [output async for output in stream]


async def all_outputs(llm: AsyncLLM, params: SamplingParams) -> list[list[RequestOutput]]:
    """Return every output of every prompt, by steps that wait for the readers."""
    streams = [llm.generate(prompt, params, f"r{index}") for index, prompt in enumerate(PROMPTS)]
    llm.pause()
    reading = [asyncio.create_task(outputs_of(stream)) for stream in streams]
    await until(lambda: llm.num_unfinished_requests == len(PROMPTS))
    while llm.num_unfinished_requests:
        await llm.step_once()
        await asyncio.sleep(0.002)
    llm.resume()
    return await asyncio.gather(*reading)


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("logprobs", [None, 2])
def test_every_output_is_that_of_an_engine_on_a_thread(llm: AsyncLLM, logprobs: int | None) -> None:
    params = SamplingParams(12, logprobs=logprobs, stop=("qu",), ignore_eos=True)

    async def on_a_thread() -> list[list[RequestOutput]]:
        local = AsyncLLM(open_engine())
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


def test_what_nobody_read_is_one_output(llm: AsyncLLM) -> None:
    async def read_late() -> RequestOutput:
        llm.pause()
        stream = llm.generate(PROMPTS[0], SamplingParams(9, ignore_eos=True), "late")
        reading = asyncio.ensure_future(anext(stream))
        await until(lambda: llm.num_unfinished_requests == 1)
        await llm.step_once()
        first = await reading
        llm.resume()
        while await llm.call(LLMEngine.has_unfinished_requests):
            await asyncio.sleep(0.001)
        second = await anext(stream)
        assert first.num_new_tokens + second.num_new_tokens == len(second.outputs[0].token_ids) == 9
        assert first.new_text + second.new_text == second.outputs[0].text
        return second

    assert run(read_late()).finished


@pytest.mark.parametrize("num_read", [0, 1, 3])
def test_a_reader_that_leaves_leaves_nothing_behind(llm: AsyncLLM, num_read: int) -> None:
    async def leave() -> None:
        stream = llm.generate(PROMPTS[0], SamplingParams(200), "left")
        reading = asyncio.create_task(outputs_of(first(stream, num_read)))
        if num_read:
            await reading
        else:
            await until(lambda: llm.num_unfinished_requests == 1)
            reading.cancel()
            await asyncio.wait([reading])
        await stream.aclose()

    run(leave())


async def first(stream: AsyncIterator[RequestOutput], count: int) -> AsyncIterator[RequestOutput]:
    for _ in range(max(1, count)):
        yield await anext(stream)


def test_an_aborted_request_gets_its_last_output(llm: AsyncLLM) -> None:
    async def abort() -> RequestOutput:
        stream = llm.generate(PROMPTS[0], SamplingParams(200, ignore_eos=True), "aborted")
        seen = await anext(stream)
        await llm.abort("aborted")
        async for output in stream:
            assert output.outputs[0].text.startswith(seen.outputs[0].text)
        return output

    assert run(abort()).outputs[0].finish_reason == "abort"


def test_a_failing_step_ends_only_its_requests(llm: AsyncLLM) -> None:
    async def fail() -> tuple[RequestOutput, RequestOutput]:
        failed = await outputs_of(llm.generate([FaultyRunner.RAISES], SamplingParams(3), "fails"))
        return failed[-1], (await outputs_of(llm.generate(PROMPTS[0], SamplingParams(3), "works")))[-1]

    failed, works = run(fail())
    assert (failed.error, works.error) == ("OSError: the device is gone", None)


def test_errors_cross_as_they_are(llm: AsyncLLM) -> None:
    async def refuse() -> None:
        with pytest.raises(ValueError, match="max_tokens must be an integer of at least 1, got 0"):
            await outputs_of(llm.generate(PROMPTS[0], SamplingParams(0), "wrong"))
        llm.pause()
        waiting = [asyncio.create_task(outputs_of(llm.generate([1], SamplingParams(1), f"w{i}"))) for i in range(6)]
        await until(lambda: llm.num_unfinished_requests == 6)
        with pytest.raises(QueueFullError, match="max_num_waiting"):
            await outputs_of(llm.generate(PROMPTS[0], SamplingParams(1), "too many"))
        llm.resume()
        await asyncio.gather(*waiting)

    run(refuse())


def raise_what_pickle_cannot_make_again(engine: LLMEngine) -> None:
    raise UnpicklableError("first", "second")


class UnpicklableError(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def return_what_pickle_does_not_take(engine: LLMEngine) -> Any:
    return lambda: None


def test_what_cannot_be_pickled_is_named(llm: AsyncLLM) -> None:
    with pytest.raises(RuntimeError, match="UnpicklableError: first and second"):
        run(llm.call(raise_what_pickle_cannot_make_again))
    with pytest.raises(RuntimeError, match="pickle"):
        run(llm.call(return_what_pickle_does_not_take))
    with pytest.raises(Exception, match="pickle"):
        run(llm.call(lambda engine: None))
    assert run(llm.call(held))[:2] == (0, 0)


def echo(engine: LLMEngine, content: bytes) -> bytes:
    return content


def test_messages_for_which_the_pipe_has_no_room_pass_each_other(llm: AsyncLLM) -> None:
    """Calls and answers of 4 MB from several threads at once: neither end waits for the other."""
    contents = [bytes([number]) * 4_000_000 for number in range(4)]

    def ask(content: bytes) -> bool:
        calls = [host_of(llm).call, host_of(llm).call_during_step]
        return all(calls[number % 2](partial(echo, content=content)).result(60) == content for number in range(10))

    with ThreadPoolExecutor(len(contents)) as pool:
        assert all(pool.map(ask, contents, timeout=60))


def test_one_step_at_a_time(llm: AsyncLLM) -> None:
    async def step() -> None:
        llm.pause()
        task = asyncio.create_task(outputs_of(llm.generate(PROMPTS[0], SamplingParams(9, ignore_eos=True), "a")))
        await until(lambda: llm.num_unfinished_requests == 1)
        for num_tokens in range(1, 4):
            await llm.step_once()
            assert await llm.call_during_step(partial(num_output_tokens, request_id="a")) == num_tokens
        llm.resume()
        assert len((await task)[-1].outputs[0].token_ids) == 9

    run(step())


def num_output_tokens(engine: LLMEngine, request_id: str) -> int:
    return engine.scheduler.requests[request_id].num_output_tokens


def test_ctrl_c_and_sigterm_are_for_the_server(llm: AsyncLLM) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(host_of(llm)._process.pid or 0, number)
    assert run(outputs_of(llm.generate(PROMPTS[0], SamplingParams(3), "after")))[-1].finished


def open_no_engine() -> LLMEngine:
    raise KeyError("what is missing")


def test_an_engine_that_cannot_be_opened_says_why() -> None:
    with pytest.raises(ValueError, match="no/such/model"):
        AsyncLLM(partial(build_engine, CONFIG, parse_lineup("solution"), "no/such/model"))
    with pytest.raises(EngineDeadError, match="code 3"):
        AsyncLLM(partial(os._exit, 3))
    with pytest.raises(KeyError, match="what is missing") as raised:
        AsyncLLM(open_no_engine)
    assert vars(raised.value)["remote_frames"][-1].name == "open_no_engine", "a learner reads where it was raised"


def test_if_the_process_ends_all_readers_and_callers_are_told() -> None:
    llm = AsyncLLM(open_faulty_engine)

    async def die() -> None:
        reading = asyncio.create_task(outputs_of(llm.generate([FaultyRunner.EXITS], SamplingParams(3), "a")))
        with pytest.raises(EngineDeadError, match="process has ended with code 7"):
            await reading
        assert not llm.is_alive
        with pytest.raises(EngineDeadError):
            await outputs_of(llm.generate(PROMPTS[0], SamplingParams(3), "b"))
        with pytest.raises(EngineDeadError):
            await llm.call_during_step(held)
        llm.pause()
        llm.resume()
        await llm.shutdown()

    run(die())


def test_a_step_that_does_not_end_is_seen_and_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_llm, "SECONDS_FOR_LAST_STEP", 0.05)
    llm = AsyncLLM(open_faulty_engine)
    process = psutil.Process(host_of(llm)._process.pid)

    async def hang() -> None:
        stuck = asyncio.create_task(outputs_of(llm.generate([FaultyRunner.NEVER_ENDS], SamplingParams(3), "a")))
        await until(lambda: llm.seconds_in_step > 0.05)
        assert await llm.call_during_step(held) == (1, 1, 62), "one may look in the middle of a step"
        waiting = asyncio.create_task(llm.call(held))
        await llm.shutdown(0.0)
        with pytest.raises(EngineDeadError, match="in a step"):
            await stuck
        with pytest.raises(ShuttingDownError):
            await waiting

    run(hang())
    process.wait(10)


def test_shutdown_lets_running_requests_end_and_leaves_no_process_or_thread() -> None:
    threads, children = set(threading.enumerate()), set(psutil.Process().children())

    async def end() -> list[RequestOutput]:
        llm = AsyncLLM(open_engine)
        reading = asyncio.create_task(outputs_of(llm.generate(PROMPTS[0], SamplingParams(50, ignore_eos=True), "a")))
        await until(lambda: llm.num_unfinished_requests == 1)
        await llm.shutdown(30)
        with pytest.raises(ShuttingDownError):
            await llm.call(held)
        return await reading

    assert run(end())[-1].outputs[0].finish_reason == "length"
    left = set(psutil.Process().children()) - children
    assert [process for process in left if "spawn_main" in " ".join(process.cmdline())] == []
    for thread in set(threading.enumerate()) - threads:
        thread.join(10)
        assert not thread.is_alive()


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
