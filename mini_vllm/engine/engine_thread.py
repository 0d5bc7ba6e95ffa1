"""The only thread that uses an engine. The thread takes steps while there is work, and runs calls between them."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from ctypes import c_double
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.periodic_checker import PeriodicChecker
from mini_vllm.outputs import RequestOutput

Result = TypeVar("Result")
Deliver = Callable[[list[RequestOutput]], None]
OnDeath = Callable[[EngineDeadError], None]
StepClock = c_double  # start time of the current step, or 0 between steps; it may be in shared memory
MAX_REASON = 2_000
SECONDS_OF_CALLS = 0.02  # runs all calls between two steps: one client may send hundreds of requests at once
logger = logging.getLogger(__name__)


class EngineThread:
    """Owns an engine, and calls `deliver` on this thread with the outputs of every step.

    A step that raises ends its requests. If ending a request raises twice in a row, the thread stops, calling
    `on_death` as its last act.
    """

    def __init__(
        self, engine: LLMEngine, deliver: Deliver, on_death: OnDeath, step_clock: StepClock | None = None
    ) -> None:
        self.engine = engine
        engine.add_observer(PeriodicChecker(engine.scheduler))
        self.config: EngineConfig = engine.config
        self.tokenizer: Tokenizer = engine.tokenizer
        self.deliver, self.on_death = deliver, on_death
        self.is_paused = self.is_ending = False
        self.error: BaseException | None = None
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._call: Future[Any] = Future()
        # No call may run after the end, so this lock stops calls from entering the queue after the thread last checks
        # it.
        self._ending = threading.Lock()
        self._step_clock = StepClock() if step_clock is None else step_clock
        # As a daemon, the thread does not keep the process alive if `end` was never called.
        self._thread = threading.Thread(target=self._run, name="mini-vllm-engine", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the engine can take steps."""
        return self.error is None and self._thread.is_alive()

    @property
    def reason_of_death(self) -> str:
        """Why the thread has ended, or an empty string."""
        return "" if self.error is None else str(self._death_error())

    @property
    def seconds_in_step(self) -> float:
        """Seconds since the current step began, or 0 between two steps. A large number of seconds suggests an endless
        loop."""
        return seconds_since(self._step_clock)

    def call(self, function: Callable[[LLMEngine], Result]) -> Future[Result]:
        """Call `function` with the engine between two steps.

        Raises `ShuttingDownError` once the thread is stopping, and `EngineDeadError` if an error has stopped it.
        """
        future: Future[Result] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            self._call = future
            if self.error is None:
                complete(future, lambda: function(self.engine))
            else:
                future.set_exception(self._death_error())

        with self._ending:
            self._require_open()
            self._calls.put(run)
        return future

    def call_during_step(self, function: Callable[[LLMEngine], Result]) -> Future[Result]:
        """Call `function`, which must only read the engine, immediately on the caller's thread."""
        future: Future[Result] = Future()
        complete(future, lambda: function(self.engine))
        return future

    def abort(self, request_id: str) -> Future[RequestOutput | None]:
        """End a request between two steps; the result is its last output."""
        return self.call(lambda engine: engine.abort_request(request_id))

    def step_once(self) -> Future[None]:
        """Take one step if any request is unfinished, and deliver its outputs."""
        return self.call(lambda engine: self.step() if engine.has_unfinished_requests() else None)

    def pause(self) -> None:
        """Stop taking steps until `resume` is called, except through `step_once`."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self._interrupt_wait()

    def step(self) -> None:
        """Take one step and deliver its outputs; runs on the engine's thread. A failing step ends only its requests."""
        self._step_clock.value = time.monotonic()
        try:
            outputs = self.engine.step()
        # A learner's code may even call `exit()`: nothing it does may end the thread.
        except BaseException as error:
            logger.exception("a step failed; the requests in it end with an error")
            reason = shortened(f"{type(error).__name__}: {error}")
            self.engine.last_failure = time.monotonic(), reason
            outputs = self._end_requests(self.engine.requests_in_failed_step(), reason)
        finally:
            self._step_clock.value = 0.0
        self.deliver(outputs)

    def end(self) -> None:
        """Stop the thread once all calls made so far have been handled."""
        with self._ending:
            self.is_ending = True
        self._interrupt_wait()

    def join(self) -> None:
        """Wait until the thread has stopped."""
        self._thread.join()

    def abandon(self) -> None:
        """Do nothing: Python cannot kill a thread, and this one does not keep the process alive."""

    def give_up(self, reason: str) -> None:
        """Fail every reader and caller with `reason`. Any thread may call this, even during a step or a call."""
        self._die(EngineDeadError(reason))
        if not self._call.done():
            self._call.set_exception(self._death_error())

    def _interrupt_wait(self) -> None:
        self._calls.put(lambda: None)

    def _require_open(self) -> None:
        if self.error is not None:
            raise self._death_error()
        if self.is_ending:
            raise ShuttingDownError("the engine has shut down")

    def _death_error(self) -> EngineDeadError:
        about = f"the engine's thread has ended: {type(self.error).__name__}: {self.error}; see the log"
        return EngineDeadError(str(self.error) if isinstance(self.error, EngineDeadError) else about)

    def _end_requests(self, request_ids: list[str], error: str) -> list[RequestOutput]:
        outputs = [self._end_request(request_id, error) for request_id in request_ids]
        return [output for output in outputs if output is not None]

    def _end_request(self, request_id: str, error: str) -> RequestOutput | None:
        try:
            return self.engine.abort_request(request_id, error)
        except BaseException:
            # The code that failed may be the very code that frees blocks. The engine was reset after the failure, so
            # all blocks are free now.
            return self.engine.abort_request(request_id, error)

    def _run(self) -> None:
        try:
            while self._run_calls():
                if self._may_step():
                    self.step()
        except BaseException as error:
            logger.exception("the engine's thread has ended")
            self._die(error)

    def _die(self, error: BaseException) -> None:
        with self._ending:
            self.is_ending, self.error = True, self.error or error
        self._run_calls()
        self.on_death(self._death_error())

    def _may_step(self) -> bool:
        return not self.is_paused and self.engine.has_unfinished_requests()

    def _run_calls(self) -> bool:
        """Run queued calls, for at most `SECONDS_OF_CALLS` if a step is due; without other work, wait for a call.

        Returns False at the end, when no calls are left.
        """
        end = time.monotonic() + SECONDS_OF_CALLS
        try:
            while True:
                waits = not self._may_step() and not self.is_ending
                call = self._calls.get(block=waits)
                end = time.monotonic() + SECONDS_OF_CALLS if waits else end
                call()
                if time.monotonic() >= end and self._may_step() and not self.is_ending:
                    return True
        except Empty:
            return not self.is_ending


def shortened(reason: str) -> str:
    """Return an error's text for clients, cut to `MAX_REASON` characters, because a learner's error message can have
    any length."""
    num_more = len(reason) - MAX_REASON
    return reason if num_more <= 0 else f"{reason[:MAX_REASON]} ... ({num_more:,} more characters)"


def complete(future: Future[Any], function: Callable[[], Any]) -> None:
    """Complete a future with the function's result or error, unless the future already has an error."""
    with suppress(InvalidStateError):
        try:
            result = function()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def seconds_since(step_clock: StepClock) -> float:
    """Return the seconds since the current step began, or 0 between two steps."""
    began = step_clock.value
    return time.monotonic() - began if began else 0.0
