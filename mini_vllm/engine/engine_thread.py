"""The one thread that touches an engine: it takes steps while there is work, and runs calls between them."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.outputs import RequestOutput

Result = TypeVar("Result")
logger = logging.getLogger(__name__)


class EngineThread:
    """Owns an engine. `deliver` gets the outputs of every step, on this thread.

    `on_death` is called last if an error ends the thread: one that not even the end of a failed step's requests, each
    tried twice, could get rid of.
    """

    def __init__(
        self,
        engine: LLMEngine,
        deliver: Callable[[list[RequestOutput]], None],
        on_death: Callable[[EngineDeadError], None],
    ) -> None:
        self.engine = engine
        self.deliver = deliver
        self.on_death = on_death
        self.is_paused = False
        self.is_ending = False
        self.error: BaseException | None = None
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # Behind the end nobody would ever run a call, so none may come between the last look and the end.
        self._ending = threading.Lock()
        self._step_began: float | None = None
        # The threads of a process that ends without `end` must not keep it alive.
        self._thread = threading.Thread(target=self._run, name="mini-vllm-engine", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def seconds_in_step(self) -> float:
        """How long the step that is being taken has lasted, 0 between two steps: more than seconds is a loop."""
        began = self._step_began
        return 0.0 if began is None else time.monotonic() - began

    def call(self, function: Callable[[LLMEngine], Result]) -> Future[Result]:
        """Run a function of the engine between two steps.

        Raises `ShuttingDownError` once the thread is ending, `EngineDeadError` if an error has ended it.
        """
        future: Future[Result] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            if self.error is None:
                _settle(future, lambda: function(self.engine))
            else:
                future.set_exception(self._dead())

        with self._ending:
            if self.error is not None:
                raise self._dead()
            if self.is_ending:
                raise ShuttingDownError("the engine has shut down")
            self._calls.put(run)
        return future

    def wake(self) -> None:
        """Let the thread look again at what there is to do."""
        self._calls.put(lambda: None)

    def step(self) -> None:
        """Take one step and deliver its outputs. If it raises, its requests end with an error, and only they.

        Called on the thread itself.
        """
        self._step_began = time.monotonic()
        try:
            outputs = self.engine.step()
        # A learner's code may even call `exit()`: nothing that it does may end the thread.
        except BaseException as error:
            logger.exception("a step failed; the requests in it end with an error")
            outputs = self._end_requests(self.engine.requests_in_failed_step(), f"{type(error).__name__}: {error}")
        finally:
            self._step_began = None
        self.deliver(outputs)

    def end(self) -> None:
        """Let the thread end behind the calls so far."""
        with self._ending:
            self.is_ending = True
        self.wake()

    def _dead(self) -> EngineDeadError:
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
            self.on_death(self._dead())

    def _may_step(self) -> bool:
        return not self.is_paused and self.engine.has_unfinished_requests()

    def _run_calls(self) -> bool:
        """Run what has been called for; wait for a call if there is nothing else to do. False: the end."""
        try:
            while True:
                self._calls.get(block=not self._may_step() and not self.is_ending)()
        except Empty:
            return not self.is_ending


def _settle(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        result = function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
