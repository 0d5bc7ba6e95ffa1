"""The main function of an `EngineProcess`'s process. (vLLM: `EngineCoreProc` of `v1/engine/core.py`.)"""

import faulthandler
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from concurrent.futures import Future
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

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
    Watch,
)
from mini_vllm.engine.engine_thread import EngineThread, StepClock
from mini_vllm.engine.output_pieces import piece_of
from mini_vllm.engine.process_group import end_group
from mini_vllm.freed_memory import keep_freed_memory
from mini_vllm.outputs import RequestOutput

SWITCH_INTERVAL = 0.0005
"""Seconds for which a thread may hold the GIL. With the default, 5 ms, compiling a grammar delays steps."""


def run_engine(
    open_engine: OpenEngine, watch: Watch | None, connection: "Connection[Any, Any]", step: StepClock, beat: StepClock
) -> None:
    """Open the engine, then execute calls from the pipe until an `EndProcess` message arrives or the pipe closes.

    The clock `beat` is updated twice a second, unless native code holds the GIL.
    """
    lead_group()
    # Ctrl-C reaches every process in a terminal, but the server decides when to exit, because it lets running requests
    # finish.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    keep_freed_memory()
    sys.setswitchinterval(SWITCH_INTERVAL)
    threading.Thread(target=end_with_parent, args=(beat,), name="mini-vllm-parent", daemon=True).start()
    faulthandler.enable()
    try:
        engine = open_engine()
    except BaseException as error:
        error.__dict__["remote_frames"] = list(traceback.extract_tb(error.__traceback__))  # lost when pickled
        connection.send_bytes(pickled(error))
        return
    # Everything loaded so far stays in memory, so the garbage collector need not scan torch and the model again (as in
    # vLLM).
    gc.collect()
    gc.freeze()
    PipeServer(connection).serve(engine, watch, step)


def lead_group() -> None:
    """Make this process lead a process group, so that processes started by a learner's code exit with it. Refuse
    forks."""
    sys.addaudithook(refuse_fork)
    if sys.platform != "win32":
        os.setsid()


def refuse_fork(event: str, _: object) -> None:
    if event in ("os.fork", "os.forkpty"):
        raise RuntimeError(
            f"calling {event}() inside an engine would create a second engine that answers the same requests"
        )


def end_with_parent(beat: StepClock) -> None:
    """Exit this process when its parent has exited, even while a model is loading or a step is running."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    if sys.platform == "linux":
        import fcntl

        # Native code that holds the GIL blocks this thread, but a signal to the group still ends the process.
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, os.O_ASYNC)
    if sys.platform != "win32":
        faulthandler.register(signal.SIGUSR1)
    while parent.is_alive():
        beat.value = time.monotonic()
        parent.join(0.5)
    end_group()


class PipeServer:
    """Passes calls from the pipe to the engine's thread, and sends results and outputs back."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection = connection
        # The engine's thread sends outputs and results; the main thread sends the results that need not wait for a step
        # boundary.
        self._sending = threading.Lock()

    def serve(self, engine: Any, watch: Watch | None, step_clock: StepClock) -> None:
        """Run the engine until an `EndProcess` message."""
        thread = EngineThread(engine, self._send_outputs, self._send, step_clock)
        self._send(Opened(thread.config, thread.tokenizer))
        if watch:
            watch(thread.give_up, self._send)
        try:
            while not isinstance((call := self._connection.recv()).message, EndProcess):
                self._begin(thread, call)
        except (EOFError, OSError):
            end_group()  # the server has exited, so nobody will read this step's outputs
        thread.end()
        thread.join()

    def _begin(self, thread: EngineThread, call: Call) -> None:
        try:
            result = self._done(thread, call.message)
        except Exception as error:
            self._send(EngineReply(call.call_id, None, error))
            return
        if isinstance(result, Future):
            result.add_done_callback(partial(self._send_result, call.call_id))
        else:
            self._send(EngineReply(call.call_id, result, None))

    def _done(self, thread: EngineThread, message: EngineMessage) -> Any:
        match message:
            case RunFunction(function, during_step):
                return (thread.call_during_step if during_step else thread.call)(pickle.loads(function))
            case AbortRequest(request_id):
                return thread.abort(request_id)
            case StepOnce():
                return thread.step_once()
            case SetPaused(is_paused):
                return thread.pause() if is_paused else thread.resume()

    def _send_result(self, call_id: int, future: "Future[Any]") -> None:
        error = future.exception()
        self._send(EngineReply(call_id, None if error else future.result(), error))

    def _send_outputs(self, outputs: list[RequestOutput]) -> None:
        if outputs:
            # Plain tuples, because pickling instances of a class takes five times as long.
            self._send([tuple(piece_of(output)) for output in outputs])

    def _send(self, message: object) -> None:
        content = pickled(message)
        with self._sending:
            self._connection.send_bytes(content)


def pickled(message: object) -> bytes:
    """Pickle a message; if that fails, pickle an error with the reason instead."""
    error = message.error if isinstance(message, EngineReply) else message
    try:
        content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        if isinstance(error, BaseException):
            pickle.loads(content)  # some exceptions can be pickled but not unpickled
        return content
    except Exception as reason:
        cause = error if isinstance(error, BaseException) else reason
        plain = RuntimeError(f"{type(cause).__name__}: {cause}")
        return pickle.dumps(EngineReply(message.call_id, None, plain) if isinstance(message, EngineReply) else plain)
