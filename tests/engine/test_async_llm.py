"""Many tasks on one engine: outputs, slow readers, early ends, failing steps, pause, shutdown."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from mini_vllm import LLM, EngineConfig, RequestOutput, SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.request import Request
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine import async_llm
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.errors import EngineDeadError, QueueFullError, ShuttingDownError
from mini_vllm.engine.llm_engine import LLMEngine

Result = TypeVar("Result")
LINEUP = parse_lineup("solution:1-5")
CONFIG = EngineConfig(num_gpu_blocks=64, block_size=4, check_invariants=True)
PROMPTS = ["once upon a time", "the lamp", "a cup of tea and a cake", "once upon a time there was"]
ASYNC = parse_lineup("solution:1-5,solution:7-8"), EngineConfig(num_gpu_blocks=64, block_size=4, async_scheduling=True)


def offline(max_tokens: int = 20) -> list[str]:
    """Return the texts of all prompts from an engine without tasks."""
    outputs = LLM(config=CONFIG, lineup=LINEUP).generate(PROMPTS, SamplingParams(max_tokens))
    return [output.outputs[0].text for output in outputs]


def with_llm(work: Callable[[AsyncLLM], Awaitable[Result]], engine: LLMEngine | None = None) -> Result:
    """Run a task on an engine that is then shut down; all its blocks must be free, and its thread gone."""
    engine = engine or build_engine(CONFIG, LINEUP)

    async def run() -> Result:
        llm = AsyncLLM(engine)
        try:
            return await asyncio.wait_for(work(llm), 60)
        finally:
            await llm.shutdown(10)
            assert not llm.is_alive

    result = asyncio.run(run())
    assert engine.scheduler.kv.num_free_blocks == engine.scheduler.kv.num_usable_blocks
    assert not engine.scheduler.requests
    return result


async def outputs_of(stream: AsyncIterator[RequestOutput]) -> list[RequestOutput]:
    return [output async for output in stream]


async def text_of(llm: AsyncLLM, prompt: str, name: str, max_tokens: int = 20) -> str:
    outputs = await outputs_of(llm.generate(prompt, SamplingParams(max_tokens), name))
    assert "".join(output.new_text for output in outputs) == outputs[-1].outputs[0].text
    return outputs[-1].outputs[0].text


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.001)


class BrokenRunner:
    """Calls `fault` instead of computing, as long as it is set and says so for the batch."""

    def __init__(self, inner: ModelRunner, fault: Callable[[Sequence[ScheduledRequest]], bool]) -> None:
        self.inner, self.fault, self.vocab_size = inner, fault, inner.vocab_size

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        if self.fault(batch):
            raise OSError("the device is gone")
        return self.inner.execute_model(batch)


def broken(fault: Callable[[Sequence[ScheduledRequest]], bool], config: EngineConfig = CONFIG) -> LLMEngine:
    engine = build_engine(config, LINEUP)
    engine.runner = BrokenRunner(engine.runner, fault)
    return engine


@pytest.mark.parametrize(
    "make_engine", [lambda: build_engine(CONFIG, LINEUP), lambda: build_engine(ASYNC[1], ASYNC[0])]
)
def test_tasks_get_what_an_engine_without_tasks_says(make_engine: Callable[[], LLMEngine]) -> None:
    async def all_at_once(llm: AsyncLLM) -> list[str]:
        return await asyncio.gather(*(text_of(llm, prompt, str(i)) for i, prompt in enumerate(PROMPTS)))

    assert with_llm(all_at_once, make_engine()) == offline()


def test_a_slow_reader_holds_one_output_and_misses_no_text() -> None:
    async def read_slowly(llm: AsyncLLM) -> list[RequestOutput]:
        llm.pause()
        stream = llm.generate(PROMPTS[0], SamplingParams(20), "slow")
        reading = asyncio.ensure_future(anext(stream))
        await until(lambda: llm.num_unfinished_requests == 1)
        await llm.step_once()
        first = await reading
        llm.resume()
        while await llm.call(lambda engine: engine.has_unfinished_requests()):
            await asyncio.sleep(0.001)
        return [first, *await outputs_of(stream)]

    outputs = with_llm(read_slowly)
    assert len(outputs) == 2, "what came while nobody read is one output"
    assert outputs[0].new_text + outputs[1].new_text == outputs[1].outputs[0].text == offline()[0]


def test_a_reader_that_leaves_gives_its_blocks_back() -> None:
    async def leave(llm: AsyncLLM) -> None:
        stream = llm.generate(PROMPTS[0], SamplingParams(200), "left")
        await anext(stream)
        await stream.aclose()
        assert await llm.call(lambda engine: engine.scheduler.requests) == {}
        assert await llm.call(lambda engine: engine.scheduler.kv.num_free_blocks) == 63
        assert await text_of(llm, PROMPTS[0], "left") == offline()[0], "the name is free again"

    with_llm(leave)


def test_an_id_is_in_use_until_its_request_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step in which its reader leaves has an output for it, which the next request of this id must not get."""
    engine, goes_on = build_engine(CONFIG, LINEUP), threading.Event()
    step = engine.step

    def slow_step() -> list[RequestOutput]:
        outputs = step()
        goes_on.wait(60)
        return outputs

    async def reuse(llm: AsyncLLM) -> None:
        llm.pause()
        stream = llm.generate(PROMPTS[0], SamplingParams(200), "again")
        reading = asyncio.ensure_future(anext(stream))
        await until(lambda: llm.num_unfinished_requests == 1)
        await llm.step_once()
        await reading
        monkeypatch.setattr(engine, "step", slow_step)
        llm.resume()
        await until(lambda: llm.seconds_in_step > 0)
        await stream.aclose()
        with pytest.raises(ValueError, match="'again' belongs to an unfinished request"):
            await text_of(llm, PROMPTS[1], "again")
        goes_on.set()
        await until(lambda: llm.num_unfinished_requests == 0)
        assert await text_of(llm, PROMPTS[1], "again") == offline()[1]

    with_llm(reuse, engine)


def test_a_cancelled_task_aborts_its_request_even_before_it_was_added() -> None:
    async def cancel(llm: AsyncLLM) -> None:
        at_once = asyncio.create_task(text_of(llm, PROMPTS[0], "at once", 200))
        await asyncio.sleep(0)
        at_once.cancel()
        llm.pause()
        later = asyncio.create_task(text_of(llm, PROMPTS[1], "later", 200))
        while not await llm.call(lambda engine: "later" in engine.scheduler.requests):
            await asyncio.sleep(0.001)
        later.cancel()
        for task in (at_once, later):
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await llm.call(lambda engine: list(engine.scheduler.requests)) == []

    with_llm(cancel)


def test_an_abort_ends_a_stream_with_its_text_so_far() -> None:
    async def abort(llm: AsyncLLM) -> RequestOutput:
        llm.pause()
        task = asyncio.create_task(outputs_of(llm.generate(PROMPTS[0], SamplingParams(200), "a")))
        await until(lambda: llm.num_unfinished_requests == 1)
        for _ in range(5):
            await llm.step_once()
        await llm.abort("a")
        return (await task)[-1]

    last = with_llm(abort)
    assert last.outputs[0].finish_reason == "abort"
    assert last.outputs[0].text == offline()[0][:5]


def test_a_request_that_could_never_be_served_is_refused_and_others_go_on() -> None:
    async def refuse(llm: AsyncLLM) -> str:
        llm.pause()
        task = asyncio.create_task(text_of(llm, PROMPTS[0], "good"))
        await until(lambda: llm.num_unfinished_requests == 1)
        with pytest.raises(ValueError, match="prompt is empty"):
            await text_of(llm, "", "x")
        with pytest.raises(ValueError, match="max_tokens"):
            await text_of(llm, "x", "y", max_tokens=0)
        with pytest.raises(ValueError, match="'good' belongs to an unfinished request"):
            await text_of(llm, "other", "good")
        llm.resume()
        return await task

    assert with_llm(refuse) == offline()[0]


def test_a_full_queue_is_said_at_once() -> None:
    config = EngineConfig(num_gpu_blocks=64, block_size=4, max_num_waiting=2)

    async def fill(llm: AsyncLLM) -> list[str]:
        llm.pause()
        tasks = [asyncio.create_task(text_of(llm, prompt, prompt)) for prompt in PROMPTS[:2]]
        await until(lambda: llm.num_unfinished_requests == 2)
        with pytest.raises(QueueFullError):
            await text_of(llm, PROMPTS[2], "late")
        llm.resume()
        return await asyncio.gather(*tasks)

    assert with_llm(fill, build_engine(config, LINEUP)) == offline()[:2]


def test_a_request_that_takes_too_long_is_aborted() -> None:
    async def wait(llm: AsyncLLM) -> None:
        llm.pause()
        with pytest.raises(TimeoutError, match="not finished after 0"):
            await outputs_of(llm.generate(PROMPTS[0], SamplingParams(), "late", timeout=0.05))
        assert await llm.call(lambda engine: engine.scheduler.requests) == {}

    with_llm(wait)


def test_a_failing_step_ends_the_requests_in_it_and_no_others() -> None:
    config = EngineConfig(num_gpu_blocks=64, block_size=4, max_num_seqs=2)

    def has_second(batch: Sequence[ScheduledRequest]) -> bool:
        return any(one.request.request_id == "1" and one.request.num_output_tokens == 3 for one in batch)

    async def all_at_once(llm: AsyncLLM) -> list[RequestOutput]:
        llm.pause()
        streams = [llm.generate(prompt, SamplingParams(20), str(i)) for i, prompt in enumerate(PROMPTS)]
        tasks = [asyncio.create_task(outputs_of(stream)) for stream in streams]
        await until(lambda: llm.num_unfinished_requests == len(PROMPTS))
        llm.resume()
        return [outputs[-1] for outputs in await asyncio.gather(*tasks)]

    outputs = with_llm(all_at_once, broken(has_second, config))
    texts = [output.outputs[0].text for output in outputs]
    assert [output.outputs[0].finish_reason for output in outputs] == ["error", "error", "length", "length"]
    assert [output.error for output in outputs] == ["OSError: the device is gone"] * 2 + [None] * 2
    assert texts[2:] == offline()[2:]
    assert [text == whole[:3] for text, whole in zip(texts[:2], offline(), strict=False)] == [True, True]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), NotImplementedError("Phase 2, task 4")])
def test_no_error_of_the_parts_ends_the_thread(error: BaseException) -> None:
    """Not even one of the code that gives blocks back, which runs again when the failed requests are ended."""
    engine = build_engine(CONFIG, LINEUP)

    async def twice(llm: AsyncLLM) -> tuple[list[RequestOutput], str]:
        with with_broken_free(engine, error):
            failed = await outputs_of(llm.generate(PROMPTS[0], SamplingParams(3), "a"))
        return failed, await text_of(llm, PROMPTS[1], "b")

    failed, text = with_llm(twice, engine)
    assert failed[-1].error is not None
    assert type(error).__name__ in failed[-1].error
    assert text == offline()[1]


@contextmanager
def with_broken_free(engine: LLMEngine, error: BaseException) -> Iterator[None]:
    free = type(engine.scheduler.kv).free

    def fails(self: Any, request: Request, num_computed_tokens: int) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(engine.scheduler.kv), "free", fails)
        yield
    assert type(engine.scheduler.kv).free is free


def test_if_the_thread_dies_all_readers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = build_engine(CONFIG, LINEUP)

    def dies(*arguments: Any) -> None:
        raise MemoryError("no room")

    async def read(llm: AsyncLLM) -> None:
        monkeypatch.setattr(engine, "step", dies)
        monkeypatch.setattr(engine, "abort_request", dies)
        stream = llm.generate(PROMPTS[0], SamplingParams(200), "a")
        with pytest.raises(EngineDeadError, match="no room"):
            await outputs_of(stream)
        with pytest.raises(EngineDeadError):
            await text_of(llm, PROMPTS[1], "b")
        await llm.shutdown()
        assert not llm.is_alive

    async def run() -> None:
        await asyncio.wait_for(read(AsyncLLM(engine)), 60)

    asyncio.run(run())


def test_one_step_at_a_time() -> None:
    async def step(llm: AsyncLLM) -> str:
        with pytest.raises(ValueError, match="not paused"):
            await llm.step_once()
        llm.pause()
        await llm.step_once()
        task = asyncio.create_task(text_of(llm, PROMPTS[0], "a"))
        await until(lambda: llm.num_unfinished_requests == 1)
        for num_tokens in range(1, 4):
            await llm.step_once()
            assert await llm.call(lambda engine: engine.scheduler.requests["a"].num_output_tokens) == num_tokens
        llm.resume()
        return await task

    assert with_llm(step) == offline()[0]


def test_shutdown_lets_running_requests_end_and_takes_no_new_ones() -> None:
    async def run() -> str:
        llm = AsyncLLM(build_engine(CONFIG, LINEUP))
        llm.pause()
        task = asyncio.create_task(text_of(llm, PROMPTS[0], "a"))
        await until(lambda: llm.num_unfinished_requests == 1)
        ending = asyncio.create_task(llm.shutdown(30))
        await until(lambda: llm.is_shutting_down)
        with pytest.raises(ShuttingDownError):
            await text_of(llm, PROMPTS[1], "b")
        await ending
        await llm.shutdown()
        with pytest.raises(ShuttingDownError):
            await llm.call(lambda engine: None)
        return await task

    assert asyncio.run(run()) == offline()[0]


def test_shutdown_aborts_what_does_not_end_in_time() -> None:
    threads = set(threading.enumerate())

    async def run() -> RequestOutput:
        llm = AsyncLLM(build_engine(CONFIG, LINEUP))
        llm.pause()
        task = asyncio.create_task(outputs_of(llm.generate(PROMPTS[0], SamplingParams(200), "a")))
        await until(lambda: llm.num_unfinished_requests == 1)
        await llm.step_once()
        await llm.shutdown(0.0)
        return (await task)[-1]

    assert asyncio.run(run()).outputs[0].finish_reason == "abort"
    assert set(threading.enumerate()) == threads


def test_a_step_that_does_not_end_holds_up_neither_readers_nor_the_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_llm, "SECONDS_FOR_LAST_STEP", 0.05)
    engine, goes_on = build_engine(CONFIG, LINEUP), threading.Event()
    monkeypatch.setattr(engine, "step", lambda: goes_on.wait(60) and [])

    async def run() -> float:
        llm = AsyncLLM(engine)
        first = asyncio.create_task(outputs_of(llm.generate(PROMPTS[0], SamplingParams(), "a")))
        await until(lambda: llm.seconds_in_step > 0)
        with pytest.raises(TimeoutError, match="not finished after 0"):
            await outputs_of(llm.generate(PROMPTS[1], SamplingParams(), "b", timeout=0.05))
        await llm.shutdown(0.0)
        with pytest.raises(EngineDeadError, match="in a step"):
            await first
        return llm.seconds_in_step

    assert asyncio.run(asyncio.wait_for(run(), 30)) >= 0.05
    goes_on.set()


def test_readers_of_a_closed_loop_cost_nothing() -> None:
    engine = build_engine(CONFIG, LINEUP)
    llms: list[AsyncLLM] = []

    async def begin() -> None:
        llms.append(AsyncLLM(engine))
        llms[0].pause()
        task = asyncio.create_task(text_of(llms[0], PROMPTS[0], "left", 200))
        await until(lambda: llms[0].num_unfinished_requests == 1)
        await llms[0].step_once()
        task.cancel()

    async def another_loop() -> str:
        llms[0].resume()
        text = await text_of(llms[0], PROMPTS[1], "b")
        assert await llms[0].call(lambda engine: list(engine.scheduler.requests)) == []
        await llms[0].shutdown()
        return text

    asyncio.run(begin())
    assert asyncio.run(another_loop()) == offline()[1]
