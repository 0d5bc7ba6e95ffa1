"""Calls functions in child processes with time and memory limits, because native code cannot be interrupted in this
process."""

import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from typing import Any

Child = subprocess.Popen[bytes]
MAX_PROCESSES, MAX_CACHED = 2, 64
MAX_SECONDS, MAX_MEBIBYTES = 10.0, 1_024  # the largest legal grammars need 1 s and 200 MiB


class GrammarProcesses:
    """Makes calls on threads, each with a child process that runs the function.

    A child is started for the first call, and a new one whenever the previous child has ended. A child exits when this
    process does, even during a call. On Windows and macOS, a child's memory is not limited.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(MAX_PROCESSES, "mini-vllm-grammar")
        self._here = threading.local()  # the `child` used by the thread, and the `future` for its call
        self._lock = threading.Lock()
        self._called = dict[Future[Any], Child]()
        self._children = set[Child]()
        # a client may send many requests with the same grammar
        self._cached = lru_cache(MAX_CACHED)(self._call_in_child)
        weakref.finalize(self, end_all, self._children)

    def call(self, function: Callable[..., Any], *arguments: Hashable) -> Future[Any]:
        """Call an importable function in a child. Cancelling the future also ends a call that is running.

        The future raises the function's error, or `ValueError` if the call exceeds `MAX_SECONDS` or `MAX_MEBIBYTES`, or
        if the child dies.
        """
        future = Future[Any]()
        future.add_done_callback(self._end_if_cancelled)
        self._executor.submit(self._do, future, function, arguments)
        return future

    def _do(self, future: Future[Any], function: Callable[..., Any], arguments: tuple[Hashable, ...]) -> None:
        self._here.future = future
        with suppress(InvalidStateError):  # the call was cancelled
            try:
                result = None if future.cancelled() else self._cached(function, *arguments)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

    def _call_in_child(self, function: Callable[..., Any], *arguments: Hashable) -> Any:
        child, future, answer = self._child(), self._here.future, None
        assert child.stdin is not None
        assert child.stdout is not None
        with self._lock:
            self._called[future] = child
        began, timer = time.monotonic(), threading.Timer(MAX_SECONDS, child.kill)
        timer.start()
        with suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):  # the child has ended
            if not future.cancelled():
                pickle.dump((function, arguments), child.stdin)
                child.stdin.flush()
                answer = pickle.load(child.stdout)
        timer.cancel()
        is_late = time.monotonic() - began >= MAX_SECONDS
        with self._lock:
            del self._called[future]
        error = None
        if answer is not None and not is_late and not future.cancelled():
            result, error = answer
            if error is None:
                return result
            if not isinstance(error, MemoryError):
                raise error
        self._children.discard(child)
        end_all([child])
        if is_late:
            why = f"its compilation takes more than {MAX_SECONDS:g} seconds"
        elif error is not None:
            why = f"its compilation needs more than {MAX_MEBIBYTES:,} MiB of memory"
        else:
            why = f"the process that compiled it ended with code {child.returncode}"
        raise ValueError(f"structured_outputs cannot be compiled: {why}; shorten or simplify it")

    def close(self) -> None:
        """End all children."""
        end_all(self._children)

    def _child(self) -> Child:
        child: Child | None = getattr(self._here, "child", None)
        if child is None or child.poll() is not None:
            command = [sys.executable, "-P", "-m", "mini_vllm.engine.grammar_process_main", str(MAX_MEBIBYTES)]
            path = os.pathsep.join(one or os.getcwd() for one in sys.path)
            environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}  # each thread takes up memory
            try:
                child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
            except OSError as error:
                raise ValueError(
                    f"structured_outputs cannot be compiled because no process could be started: {error}"
                ) from None
            self._here.child = child
            self._children.add(child)
        return child

    def _end_if_cancelled(self, future: Future[Any]) -> None:
        with self._lock:
            if future.cancelled() and future in self._called:
                self._called[future].kill()


def end_all(children: Iterable[Child]) -> None:
    for child in list(children):
        with suppress(OSError), child:  # closes the child's pipes, which drops unread data, and waits for it to exit
            child.kill()
