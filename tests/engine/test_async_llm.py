"""Many tasks on one engine: outputs, slow readers, early exits, failing steps, pausing."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from mini_vllm import LLM, RequestOutput, SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.core.request import Request
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine import engine_thread
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.errors import EngineDeadError, QueueFullError
from mini_vllm.engine.llm_engine import LLMEngine
from tests.engine.async_engines import (
    CONFIG,
    HOSTS,
    LINEUP,
    PROMPTS,
    Result,
    held,
    opened,
    outputs_of,
    require_idle,
    run,
    text_of,
    until,
    waiting,
)


@pytest.fixture(scope="module", params=HOSTS)
def shared(request: pytest.FixtureRequest) -> Iterator[AsyncLLM]:
    with opened(request.param) as llm:
        yield llm


@pytest.fixture
def llm(shared: AsyncLLM) -> Iterator[AsyncLLM]:
    yield shared
    require_idle(shared)


@cache
def offline() -> list[str]:
    """Return the texts of all prompts, 20 tokens each, from an engine used without asyncio."""
    outputs = LLM(config=CONFIG, lineup=LINEUP).generate(PROMPTS, SamplingParams(20))
    return [output.outputs[0].text for output in outputs]


async def texts_at_once(llm: AsyncLLM) -> list[str]:
    return await asyncio.gather(*(text_of(llm, prompt, str(i)) for i, prompt in enumerate(PROMPTS)))


def with_llm(work: Callable[[AsyncLLM], Awaitable[Result]], engine: LLMEngine) -> Result:
    """Run a task on an engine and shut it down; all blocks must be free and its thread finished."""

    async def work_and_shut_down() -> Result:
        llm = AsyncLLM(engine)
        try:
            return await work(llm)
        finally:
            await llm.shutdown(10)
            assert not llm.is_alive

    result = run(work_and_shut_down())
    assert held(engine) == (0, 0, engine.scheduler.kv.num_usable_blocks)
    return result


def test_async_texts_equal_those_of_a_synchronous_engine(llm: AsyncLLM) -> None:
    assert run(texts_at_once(llm)) == offline()


def test_async_texts_stay_the_same_with_a_step_in_flight() -> None:
    config = replace(CONFIG, async_scheduling=True)
    assert with_llm(texts_at_once, build_engine(config, parse_lineup("solution:1-5,solution:7-8"))) == offline()


def test_a_slow_reader_holds_one_output_and_misses_no_text(llm: AsyncLLM) -> None:
    async def read_slowly() -> list[RequestOutput]:
        llm.pause()
        stream = llm.generate(PROMPTS[0], SamplingParams(20), "slow")
        reading = asyncio.ensure_future(anext(stream))
        await until(lambda: llm.num_unfinished_requests == 1)
        await llm.step_once()
        first = await reading
        llm.resume()
        while await llm.call(LLMEngine.has_unfinished_requests):
            await asyncio.sleep(0.001)
        return [first, *await outputs_of(stream)]

    outputs = run(read_slowly())
    assert [output.num_new_tokens for output in outputs] == [1, 19], "all outputs that were not read are one"
    assert outputs[0].new_text + outputs[1].new_text == outputs[1].outputs[0].text == offline()[0]


@pytest.mark.parametrize("num_read", [None, 0, 1, 3])
def test_a_reader_that_leaves_frees_its_blocks(llm: AsyncLLM, num_read: int | None) -> None:
    """None means that the reader is cancelled before the request is added; 0, before its first output is read."""

    async def leave() -> None:
        llm.pause()  # an engine in a thread would finish all 200 steps before the third output is read
        stream = llm.generate(PROMPTS[0], SamplingParams(200), "left")
        for _ in range(num_read or 1):
            reading = asyncio.ensure_future(anext(stream))
            await (asyncio.sleep(0) if num_read is None else until(lambda: llm.num_unfinished_requests == 1))
            if not num_read:
                reading.cancel()
                await asyncio.wait([reading])
                break
            await llm.step_once()
            await reading
        llm.resume()
        await stream.aclose()
        assert await llm.call(held) == (0, 0, 63)
        assert await text_of(llm, PROMPTS[0], "left") == offline()[0], "the name is free again"

    run(leave())


def test_an_abort_ends_a_stream_with_its_text_so_far(llm: AsyncLLM) -> None:
    async def abort() -> RequestOutput:
        task = await waiting(llm, PROMPTS[0], 200)
        for _ in range(5):
            await llm.step_once()
        await llm.abort("a")
        return (await task)[-1]

    completion = run(abort()).outputs[0]
    assert (completion.finish_reason, completion.text) == ("abort", offline()[0][:5])


def test_a_request_that_cannot_be_served_is_refused_and_others_go_on(llm: AsyncLLM) -> None:
    async def refuse() -> str:
        task = await waiting(llm, PROMPTS[0], name="good")
        with pytest.raises(ValueError, match="prompt is empty"):
            await text_of(llm, "", "x")
        with pytest.raises(ValueError, match="max_tokens must be an integer of at least 1, got 0"):
            await text_of(llm, "x", "y", max_tokens=0)
        with pytest.raises(ValueError, match="'good' belongs to an unfinished request"):
            await text_of(llm, "other", "good")
        others = [await waiting(llm, [1], 1, f"w{number}") for number in range(5)]
        with pytest.raises(QueueFullError, match="max_num_waiting"):
            await text_of(llm, PROMPTS[2], "late")
        llm.resume()
        await asyncio.gather(*others)
        return (await task)[-1].outputs[0].text

    assert run(refuse()) == offline()[0]


def test_one_step_at_a_time(llm: AsyncLLM) -> None:
    async def step() -> str:
        with pytest.raises(ValueError, match="pause it before you run single steps"):
            await llm.step_once()
        llm.pause()
        await llm.step_once()
        task = await waiting(llm, PROMPTS[0])
        for num_tokens in range(1, 4):
            await llm.step_once()
            assert await llm.call_during_step(partial(num_output_tokens, request_id="a")) == num_tokens
        llm.resume()
        return (await task)[-1].outputs[0].text

    assert run(step()) == offline()[0]


def num_output_tokens(engine: LLMEngine, request_id: str) -> int:
    return engine.scheduler.requests[request_id].num_output_tokens


def test_many_calls_at_once_do_not_hold_up_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_thread, "SECONDS_OF_CALLS", 0.0)

    async def counts(llm: AsyncLLM) -> list[int]:
        llm.pause()
        task = await waiting(llm, PROMPTS[0])
        count = partial(num_output_tokens, request_id="a")
        calls = [asyncio.create_task(llm.call(count)) for _ in range(10)]
        await asyncio.sleep(0)
        llm.resume()
        found = await asyncio.gather(*calls)
        await task
        return found

    found = with_llm(counts, build_engine(CONFIG, LINEUP))
    assert len(set(found)) > 3, f"steps between the calls: {found}"


def test_an_id_is_in_use_until_its_request_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader leaves during a step; the next request with the same id must not get the step's output."""
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


def test_a_failing_step_ends_the_requests_in_it_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = build_engine(replace(CONFIG, max_num_seqs=2), LINEUP)
    execute_model = engine.runner.execute_model

    def fails_for_second(batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        if any(one.request.request_id == "1" and one.request.num_output_tokens == 3 for one in batch):
            raise OSError("the device is gone")
        return execute_model(batch)

    monkeypatch.setattr(engine.runner, "execute_model", fails_for_second)

    async def all_at_once(llm: AsyncLLM) -> list[RequestOutput]:
        tasks = [await waiting(llm, prompt, name=str(number)) for number, prompt in enumerate(PROMPTS)]
        llm.resume()
        return [outputs[-1] for outputs in await asyncio.gather(*tasks)]

    outputs = with_llm(all_at_once, engine)
    assert [output.outputs[0].finish_reason for output in outputs] == ["error", "error", "length", "length"]
    assert [output.error for output in outputs] == ["OSError: the device is gone"] * 2 + [None] * 2
    assert [output.outputs[0].text for output in outputs] == [*(text[:3] for text in offline()[:2]), *offline()[2:]]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), NotImplementedError("Phase 2, task 4")])
def test_no_error_in_a_phase_ends_the_engines_thread(error: BaseException) -> None:
    """The engine's thread survives even an error in the code that frees blocks, which runs again for the failed
    requests."""
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
    def fails(self: Any, request: Request, num_computed_tokens: int) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(engine.scheduler.kv), "free", fails)
        yield


def test_if_the_thread_dies_all_readers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = build_engine(CONFIG, LINEUP)

    def dies(*arguments: Any) -> None:
        raise MemoryError("no room")

    async def read() -> None:
        llm = AsyncLLM(engine)
        monkeypatch.setattr(engine, "step", dies)
        monkeypatch.setattr(engine, "abort_request", dies)
        with pytest.raises(EngineDeadError, match="no room"):
            await text_of(llm, PROMPTS[0], "a", 200)
        with pytest.raises(EngineDeadError):
            await text_of(llm, PROMPTS[1], "b")
        await llm.shutdown()
        assert not llm.is_alive

    run(read())


def test_readers_of_a_closed_event_loop_do_no_harm() -> None:
    llm = AsyncLLM(build_engine(CONFIG, LINEUP))

    async def leave() -> None:
        task = await waiting(llm, PROMPTS[0], 200, "left")
        await llm.step_once()
        task.cancel()

    async def read_on_a_new_loop() -> str:
        llm.resume()
        text = await text_of(llm, PROMPTS[1], "b")
        assert await llm.call(held) == (0, 0, 63)
        await llm.shutdown()
        return text

    run(leave())
    assert run(read_on_a_new_loop()) == offline()[1]
