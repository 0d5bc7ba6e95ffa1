"""Runs an engine in a separate process, so that its readers' Python code never delays it. (vLLM: `core_client.py`.)"""

import atexit
import logging
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.engine_messages import (
    AbortRequest,
    Call,
    EndProcess,
    EngineMessage,
    EngineReply,
    Opened,
    OpenEngine,
    RunFunction,
    SetPaused,
    StepOnce,
    Tell,
    Watch,
)
from mini_vllm.engine.engine_process_main import run_engine
from mini_vllm.engine.engine_thread import Deliver, OnDeath, seconds_since
from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.output_pieces import OutputPiece, PieceJoiner
from mini_vllm.engine.process_group import kill_group
from mini_vllm.outputs import RequestOutput

Result = TypeVar("Result")
SECONDS_TO_EXIT, SECONDS_OF_SILENCE, SECONDS_TO_TRACE = 5.0, 8, 1.0
logger = logging.getLogger(__name__)


class EngineProcess:
    """Starts a process with an `EngineThread`, and offers the same methods.

    Functions passed to these methods must be picklable.

    `deliver`, `on_death` and `notify` are called on a thread of this process. Raises the errors of `open_engine`, and
    `EngineDeadError` if the process exits before the engine is open.
    """

    def __init__(
        self, open_engine: OpenEngine, deliver: Deliver, on_death: OnDeath, watch: Watch | None, notify: Tell
    ) -> None:
        # After a fork, torch would wait for threads that do not exist in the new process.
        spawn = multiprocessing.get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        self._clocks: Any = [spawn.Value("d", 0.0, lock=False) for _ in range(2)]
        arguments = open_engine, watch, theirs, *self._clocks
        self._process = spawn.Process(target=run_engine, args=arguments, name="mini-vllm-engine", daemon=True)
        self._process.start()
        # The process exits when this end of the pipe closes, but `multiprocessing` would wait for the process first.
        atexit.register(self.abandon)
        theirs.close()
        # Several threads may make calls. Reading results must not need the send lock: sending blocks while the pipe is
        # full, and the process may itself be blocked until its results are read.
        self._sending, self._noting = threading.Lock(), threading.Lock()
        try:
            opened = self._opened()
        except BaseException:
            self.abandon()
            self._join_process()
            raise
        self.config: EngineConfig = opened.config
        self.tokenizer: Tokenizer = opened.tokenizer
        self._deliver, self._on_death, self._notify = deliver, on_death, notify
        self._pieces = PieceJoiner()
        self._pending: dict[int, Future[Any]] = {}
        self._call_ids = count()
        self._is_paused = self._is_ending = False
        self._over = threading.Event()
        self._error: EngineDeadError | None = None
        self._reader = threading.Thread(target=self._read, name="mini-vllm-outputs", daemon=True)
        self._reader.start()
        threading.Thread(target=self._listen, name="mini-vllm-heartbeat", daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self._error is None and not self._over.is_set()

    @property
    def reason_of_death(self) -> str:
        return "" if self._error is None else str(self._error)

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def seconds_in_step(self) -> float:
        return seconds_since(self._clocks[0])

    def call(self, function: Callable[[LLMEngine], Result]) -> Future[Result]:
        return self._send(RunFunction(pickle.dumps(function)))

    def call_during_step(self, function: Callable[[LLMEngine], Result]) -> Future[Result]:
        return self._send(RunFunction(pickle.dumps(function), during_step=True))

    def abort(self, request_id: str) -> Future[RequestOutput | None]:
        return self._send(AbortRequest(request_id))

    def step_once(self) -> Future[None]:
        return self._send(StepOnce())

    def pause(self) -> None:
        self._is_paused = True
        self._send_unless_ended(SetPaused(True))

    def resume(self) -> None:
        self._is_paused = False
        self._send_unless_ended(SetPaused(False))

    def end(self) -> None:
        """Make the process exit once all calls made so far have been handled."""
        self._send_unless_ended(EndProcess())

    def abandon(self) -> None:
        """Kill the process and its children immediately, even during a step."""
        kill_group(self._process)

    def give_up(self, reason: str) -> None:
        """Fail readers and callers with `reason`, make the process write its stack to standard error, then kill it."""
        self._note_death(EngineDeadError(reason))
        with suppress(AttributeError, OSError):  # on Windows, or if the process has already exited
            os.kill(self._process.pid or 0, signal.SIGUSR1)
            time.sleep(SECONDS_TO_TRACE)
        self.abandon()

    def _opened(self) -> Opened:
        try:
            opened = self._connection.recv()
        except EOFError:
            self._process.join()
            opened = self._death_error()
        if isinstance(opened, BaseException):
            raise opened
        assert isinstance(opened, Opened)
        return opened

    def _send(self, message: EngineMessage) -> Future[Any]:
        """Send a message and return a future for its reply. Raises `ShuttingDownError` or `EngineDeadError`."""
        call_id, future = next(self._call_ids), Future[Any]()
        future.set_running_or_notify_cancel()  # the call will run even if the caller stops waiting
        content = pickle.dumps(Call(call_id, message))
        with self._noting:
            if self._error is not None:
                raise EngineDeadError(*self._error.args)
            if self._is_ending or self._over.is_set():
                raise ShuttingDownError("the engine has shut down")
            self._is_ending = isinstance(message, EndProcess)
            self._pending[call_id] = future
        with self._sending, suppress(OSError):  # if the process has exited, `_read` fails all pending calls
            self._connection.send_bytes(content)
        return future

    def _send_unless_ended(self, message: EngineMessage) -> None:
        """Send a message; ignore it if the engine has stopped, because it would have no effect."""
        with suppress(ShuttingDownError, EngineDeadError):
            self._send(message)

    def _read(self) -> None:
        try:
            while True:
                self._handle(self._connection.recv())
        except (EOFError, OSError):
            pass
        except Exception as error:  # later messages could not be trusted either
            logger.exception("unreadable message from the engine's process")
            self._note_death(EngineDeadError(f"the engine's process sent an unreadable message: {error}"))
            self.abandon()
        self._join_process()
        self._complete_pending()

    def _listen(self) -> None:
        """Give up on the process if its heartbeat stops.

        This counts checks instead of seconds, because the machine may have slept.
        """
        last, num_silent = 0.0, 0
        while not self._over.wait(1.0):
            if not self._process.is_alive():
                self.abandon()  # its children may still be running and holding their end of the pipe open
            num_silent = num_silent + 1 if self._clocks[1].value == last else 0
            last = self._clocks[1].value
            if num_silent == SECONDS_OF_SILENCE:
                self.give_up(f"the engine's process has not answered for {num_silent} seconds; the log shows its stack")

    def _join_process(self) -> None:
        """Wait for the process, which exits after closing its pipe; kill it after `SECONDS_TO_EXIT`."""
        self._process.join(SECONDS_TO_EXIT)
        self.abandon()
        self._process.join()
        atexit.unregister(self.abandon)
        with self._sending:
            self._connection.close()

    def _handle(self, message: object) -> None:
        """Handle a message: outputs, a call's reply, a notice or the death of the engine's thread."""
        if isinstance(message, EngineReply):
            with self._noting:
                future = self._pending.pop(message.call_id, None)
            if isinstance(message.result, RequestOutput):  # an output for an aborted request
                self._pieces.forget(message.result.request_id)
            if future:  # otherwise, `_fail_pending` has already failed the call
                message.complete(future)
        elif isinstance(message, EngineDeadError):
            self._note_death(message)
            self.abandon()
        elif isinstance(message, str):
            self._notify(message)
        else:
            assert isinstance(message, list)
            outputs = [self._pieces.join(OutputPiece._make(piece)) for piece in message]
            self._deliver([output for output in outputs if output is not None])

    def _complete_pending(self) -> None:
        """Fail all pending calls after the process has ended, and report its death."""
        if self._error is None and not self._is_ending:
            self._note_death(self._death_error())
        elif self._error is None:
            self._on_death(self._death_error())  # some outputs of the last step may be missing
        with self._noting:
            self._over.set()
        self._fail_pending()

    def _fail_pending(self) -> None:
        """Fail every pending call."""
        with self._noting:
            pending, self._pending = self._pending, {}
        for call_id, future in pending.items():
            error = EngineDeadError(*self._error.args) if self._error else ShuttingDownError("the engine has shut down")
            EngineReply(call_id, None, error).complete(future)

    def _note_death(self, error: EngineDeadError) -> None:
        if self._error is None:
            self._error = error
            logger.error("%s", error)
            self._on_death(error)
            self._fail_pending()

    def _death_error(self) -> EngineDeadError:
        code = self._process.exitcode
        return EngineDeadError(f"the engine's process has exited{'' if code is None else f' with code {code}'}")
