"""`AsyncLLM` serves many asyncio tasks with one engine. (vLLM: `v1/engine/async_llm.py`.)"""

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import methodcaller
from typing import TypeVar

from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.engine_messages import OpenEngine, Watch
from mini_vllm.engine.engine_process import EngineProcess
from mini_vllm.engine.engine_thread import EngineThread
from mini_vllm.engine.errors import EngineDeadError, RequestIdInUseError, ShuttingDownError
from mini_vllm.engine.grammar_process import GrammarProcesses
from mini_vllm.engine.grammar_source import source_of, text_of
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.output_pieces import OutputCollector
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams, StructuredOutputsParams

Result = TypeVar("Result")
SECONDS_FOR_LAST_STEP = 2.0
logger = logging.getLogger(__name__)


class AsyncLLM:
    """Serves asyncio tasks on any number of event loops. One thread owns the engine; `shutdown` stops that thread.

    If `engine` is an engine, the thread runs in this process. If it is a function that opens an engine, the engine gets
    a separate process, so that the readers' Python code never delays a step. That function, and those passed to `call`
    and `call_during_step`, must then be picklable. `watch` is called in the engine's process. `notice` describes a slow
    call that is in progress; otherwise it is empty.
    """

    def __init__(self, engine: LLMEngine | OpenEngine, watch: Watch | None = None) -> None:
        self.is_shutting_down, self.notice, self._given_up = False, "", ""
        self._grammar_checks = GrammarProcesses()
        # None means that the reader has left; the id stays in use until the engine has ended the request.
        self._collectors: dict[str, OutputCollector | None] = {}
        self._host: EngineThread | EngineProcess = (
            EngineThread(engine, self._deliver, self._fail_all)
            if isinstance(engine, LLMEngine)
            else EngineProcess(engine, self._deliver, self._fail_all, watch, self._notify)
        )
        # for a server, so that its first grammar need not wait for a process to start
        if isinstance(self._host, EngineProcess):
            self._grammar_checks.call(source_of, "regex", "a")
        if watch and isinstance(self._host, EngineThread):
            watch(self._host.give_up, self._notify)
        self.config: EngineConfig = self._host.config
        self.tokenizer: Tokenizer = self._host.tokenizer

    @property
    def num_unfinished_requests(self) -> int:
        """The number of requests whose last output is unread, or whose reader left before the engine had ended them."""
        return len(self._collectors)

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread is running."""
        return self._host.is_alive

    @property
    def reason_of_death(self) -> str:
        """Why the engine has stopped, set as soon as `is_alive` is false; otherwise empty."""
        return self._given_up or self._host.reason_of_death

    @property
    def seconds_in_step(self) -> float:
        """Seconds since the current step began, or 0 between two steps."""
        return self._host.seconds_in_step

    async def generate(
        self,
        prompt: str | list[int],
        sampling_params: SamplingParams,
        request_id: str,
        *,
        priority: int = 0,
        cache_salt: str | None = None,
        adapter_id: str | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[RequestOutput, None]:
        """Yield the request's outputs until it finishes; `new_text` is the text since the previous output.

        If the reader leaves early, by `aclose` or because its task is cancelled, the request is aborted at the next
        step boundary. A failing step ends its requests with `output.error`. Raises `ValueError` if the request could
        never be served or `request_id` is in use, and `QueueFullError` if the waiting queue is full. Raises
        `TimeoutError` if the request has not finished within `timeout` seconds. Also raises `ShuttingDownError` and
        `EngineDeadError`.
        """
        self._require_open()
        sampling_params = await self._with_checked_grammar(sampling_params)
        self._require_open()
        if request_id in self._collectors:
            raise RequestIdInUseError.of(request_id)
        collector = self._collectors[request_id] = OutputCollector()
        late = TimeoutError(f"the request was not finished after {timeout} seconds")
        timer = None if timeout is None else collector.loop.call_later(timeout, collector.fail, late)
        is_finished = False
        try:
            add = partial(
                LLMEngine.add_request,
                request_id=request_id,
                prompt=prompt,
                params=sampling_params,
                priority=priority,
                cache_salt=cache_salt,
                adapter_id=adapter_id,
            )
            adding = self.call(add)
            # Adding a request waits for the step to end, which may also be slow.
            try:
                await asyncio.wait_for(adding, timeout)
            except TimeoutError:
                raise late from None
            while not is_finished:
                output = await collector.get()
                is_finished = output.finished
                yield output
        finally:
            if timer is not None:
                timer.cancel()
            if is_finished:
                del self._collectors[request_id]
            elif self._collectors.get(request_id) is collector:
                self._abort(request_id)

    async def _with_checked_grammar(self, params: SamplingParams) -> SamplingParams:
        """Check a grammar in a process with resource limits; the process ends if the reader leaves."""
        if not isinstance(params.structured_outputs, StructuredOutputsParams):
            return params
        params.structured_outputs.validate()
        try:
            checked = self._grammar_checks.call(source_of, *text_of(params.structured_outputs))
            source = await asyncio.wrap_future(checked)
        except ValueError:
            self._require_open()  # `shutdown` ends the process
            raise
        return replace(params, structured_outputs=replace(params.structured_outputs, _source=source))

    async def abort(self, request_id: str) -> None:
        """End a request at the next step boundary; its reader gets a last output with `finish_reason="abort"`."""
        await asyncio.wrap_future(self._end(request_id))

    async def update_priority(self, request_id: str, priority: int) -> bool:
        """Change an unfinished request's priority at the next step boundary; return False if no such request exists."""
        return await self.call(methodcaller("update_priority", request_id, priority))

    async def call(self, function: Callable[[LLMEngine], Result]) -> Result:
        """Call `function` with the engine on its thread, between two steps, and return the result."""
        return await asyncio.wrap_future(self._host.call(function))

    async def call_during_step(self, function: Callable[[LLMEngine], Result]) -> Result:
        """Call `function`, possibly during a step, and return the result; it must only read the engine."""
        return await asyncio.wrap_future(self._host.call_during_step(function))

    def pause(self) -> None:
        """Stop taking steps until `resume` is called. Requests may still be added and aborted."""
        self._host.pause()

    def resume(self) -> None:
        """Resume taking steps."""
        self._host.resume()

    @property
    def is_paused(self) -> bool:
        return self._host.is_paused

    async def step_once(self) -> None:
        """Take one step while paused, unless all requests are finished. Raises `ValueError` if not paused."""
        if not self.is_paused:
            raise ValueError("the engine is not paused: pause it before you run single steps")
        await asyncio.wrap_future(self._host.step_once())

    async def shutdown(self, timeout: float = 30.0) -> None:
        """Refuse new requests, give running ones `timeout` seconds to finish, abort the rest and stop the thread.

        If the last step does not finish within `SECONDS_FOR_LAST_STEP`, all readers get `EngineDeadError`, and the
        thread is abandoned or the process killed.
        """
        self.is_shutting_down = True
        self._grammar_checks.close()
        if not self.is_alive:
            return
        if timeout > 0:
            self.resume()
        deadline = time.monotonic() + timeout
        while self._collectors and self.is_alive and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        with suppress(EngineDeadError):
            for request_id in list(self._collectors):
                self._end(request_id)
        self._host.end()
        deadline = time.monotonic() + SECONDS_FOR_LAST_STEP
        while self.is_alive and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        if self.is_alive:
            about = f"the engine is in a step that has lasted {self.seconds_in_step:.0f} s"
            self._given_up = f"{about}. {self.notice}" if self.notice else about
            self._fail_all(EngineDeadError(self._given_up))
            self._host.abandon()

    def _require_open(self) -> None:
        if self.is_shutting_down:
            raise ShuttingDownError("the engine is shutting down and accepts no more requests")

    def _abort(self, request_id: str) -> None:
        """End a request whose reader has left. Some of its outputs may still arrive."""
        self._collectors[request_id] = None
        try:
            ending = self._host.abort(request_id)
        except (EngineDeadError, ShuttingDownError):
            self._collectors.pop(request_id, None)
        else:
            ending.add_done_callback(lambda _: self._collectors.pop(request_id, None))

    def _end(self, request_id: str) -> "Future[RequestOutput | None]":
        """End a request and deliver its last output."""
        ending = self._host.abort(request_id)
        ending.add_done_callback(self._deliver_last)
        return ending

    def _deliver_last(self, ending: "Future[RequestOutput | None]") -> None:
        if not ending.cancelled() and ending.exception() is None and (output := ending.result()) is not None:
            self._deliver([output])

    def _deliver(self, outputs: list[RequestOutput]) -> None:
        """Pass outputs to their readers' event loops, with one call per loop.

        Runs on the thread that delivers outputs.
        """
        by_loop = defaultdict[asyncio.AbstractEventLoop, list[tuple[OutputCollector, RequestOutput]]](list)
        for output in outputs:
            collector = self._collectors.get(output.request_id)
            if collector is not None:
                by_loop[collector.loop].append((collector, output))
        for loop, items in by_loop.items():
            try:
                loop.call_soon_threadsafe(_put_all, items)
            except RuntimeError:  # the loop was closed before its readers unregistered
                for _, output in items:  # done in a new thread, because sending may block until this thread reads
                    self._collectors[output.request_id] = None
                    threading.Thread(target=self._abort, args=(output.request_id,), daemon=True).start()

    def _notify(self, notice: str) -> None:
        self.notice = notice
        logger.warning("%s", notice or "That call has ended: the engine goes on.")

    def _fail_all(self, error: EngineDeadError) -> None:
        """Fail all readers, because no more outputs will arrive."""
        for collector in list(self._collectors.values()):
            if collector is not None:
                with suppress(RuntimeError):
                    collector.loop.call_soon_threadsafe(collector.fail, error)


def _put_all(items: list[tuple[OutputCollector, RequestOutput]]) -> None:
    for collector, output in items:
        collector.put(output)
