"""The one thread that touches an engine: it takes steps while there is work, and runs calls between them."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.outputs import RequestOutput

Result = TypeVar("Result")
Deliver = Callable[[list[RequestOutput]], None]
OnDeath = Callable[[EngineDeadError], None]
logger = logging.getLogger(__name__)


class StepClock(Protocol):
    """Holds the time at which the step that is being taken began, 0 between two steps."""

    value: float


class LocalStepClock:
    """A clock for this process."""

    value = 0.0


class EngineThread:
    """Owns an engine. `deliver` gets the outputs of every step, on this thread.

    `on_death` is called last if an error ends the thread: one that not even the end of a failed step's requests, each
    tried twice, could get rid of.
    """

    def __init__(
        self, engine: LLMEngine, deliver: Deliver, on_death: OnDeath, step_clock: StepClock | None = None
    ) -> None:
        self.engine = engine
        self.config: EngineConfig = engine.config
        self.tokenizer: Tokenizer = engine.tokenizer
        self.deliver = deliver
        self.on_death = on_death
        self.is_paused = False
        self.is_ending = False
        self.error: BaseException | None = None
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # After the end no call is ever run, so none may come between the last look at the queue and the end.
        self._ending = threading.Lock()
        self._step_clock = LocalStepClock() if step_clock is None else step_clock
        # The threads of a process that ends without `end` must not keep it alive.
        self._thread = threading.Thread(target=self._run, name="mini-vllm-engine", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def seconds_in_step(self) -> float:
        return seconds_since(self._step_clock)

    def call(self, function: Callable[[LLMEngine], Result]) -> Future[Result]:
        """Run a function of the engine between two steps.

        Raises `ShuttingDownError` once the thread is ending, `EngineDeadError` if an error has ended it.
        """
        future: Future[Result] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            if self.error is None:
                complete(future, lambda: function(self.engine))
            else:
                future.set_exception(self._death_error())

        with self._ending:
            self._require_open()
            self._calls.put(run)
        return future

    def call_during_step(self, function: Callable[[LLMEngine], Result]) -> Future[Result]:
        """Run a function that only reads the engine, here and now."""
        future: Future[Result] = Future()
        complete(future, lambda: function(self.engine))
        return future

    def abort(self, request_id: str) -> Future[RequestOutput | None]:
        return self.call(lambda engine: engine.abort_request(request_id))

    def step_once(self) -> Future[None]:
        return self.call(lambda engine: self.step() if engine.has_unfinished_requests() else None)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self._interrupt_wait()

    def step(self) -> None:
        """Take one step and deliver its outputs. If it raises, its requests end with an error, and only they.

        Called on the thread itself.
        """
        self._step_clock.value = time.monotonic()
        try:
            outputs = self.engine.step()
        # A learner's code may even call `exit()`: nothing that it does may end the thread.
        except BaseException as error:
            logger.exception("a step failed; the requests in it end with an error")
            outputs = self._end_requests(self.engine.requests_in_failed_step(), f"{type(error).__name__}: {error}")
        finally:
            self._step_clock.value = 0.0
        self.deliver(outputs)

    def end(self) -> None:
        """Let the thread end after the calls so far."""
        with self._ending:
            self.is_ending = True
        self._interrupt_wait()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def abandon(self) -> None:
        """Leave the thread alone: Python has no way to end it, and it does not keep the process alive."""

    def _interrupt_wait(self) -> None:
        self._calls.put(lambda: None)

    def _require_open(self) -> None:
        if self.error is not None:
            raise self._death_error()
        if self.is_ending:
            raise ShuttingDownError("the engine has shut down")

    def _death_error(self) -> EngineDeadError:
        return EngineDeadError(f"the engine's thread has ended: {type(self.error).__name__}: {self.error}; see the log")

    def _end_requests(self, request_ids: list[str], error: str) -> list[RequestOutput]:
        outputs = [self._end_request(request_id, error) for request_id in request_ids]
        return [output for output in outputs if output is not None]

    def _end_request(self, request_id: str, error: str) -> RequestOutput | None:
        try:
            return self.engine.abort_request(request_id, error)
        except BaseException:
            # The code that gives blocks back may be what fails. The engine has now begun anew, with all blocks free.
            return self.engine.abort_request(request_id, error)

    def _run(self) -> None:
        try:
            while self._run_calls():
                if self._may_step():
                    self.step()
        except BaseException as error:
            logger.exception("the engine's thread has ended")
            with self._ending:
                self.is_ending, self.error = True, error
            self._run_calls()
            self.on_death(self._death_error())

    def _may_step(self) -> bool:
        return not self.is_paused and self.engine.has_unfinished_requests()

    def _run_calls(self) -> bool:
        """Run what has been called for; wait for a call if there is nothing else to do. False: the end."""
        try:
            while True:
                self._calls.get(block=not self._may_step() and not self.is_ending)()
        except Empty:
            return not self.is_ending


def complete(future: Future[Any], function: Callable[[], Any]) -> None:
    """Let a future have what a function returns or raises."""
    try:
        result = function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


def seconds_since(step_clock: StepClock) -> float:
    """Return the seconds that the step of a clock has lasted, 0 between two steps."""
    began = step_clock.value
    return time.monotonic() - began if began else 0.0
