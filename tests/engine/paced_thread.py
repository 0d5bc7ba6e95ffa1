"""A runner's thread that always computes as early or as late as possible, so every run is the same."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.overlapping_engine import OverlappingEngine


class LateFuture(Future[Any]):
    """Computed when its result is asked for, after those that were started before it."""

    def __init__(self, ask: Callable[["LateFuture"], None]) -> None:
        super().__init__()
        self.ask = ask

    def result(self, timeout: float | None = None) -> Any:
        self.ask(self)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.ask(self)
        return super().exception(timeout)


class EarlyThread(ThreadPoolExecutor):
    """Computes a step before the engine does anything else."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(function, *args, **kwargs)
        future.exception()
        return future


class LateThread(ThreadPoolExecutor):
    """Computes a step only once the engine waits for it; until then it can be cancelled."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._started: list[tuple[LateFuture, Callable[[], Any]]] = []

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = LateFuture(self._compute_until)
        self._started.append((future, lambda: function(*args, **kwargs)))
        return future

    def _compute_until(self, wanted: LateFuture) -> None:
        while not wanted.done():
            future, compute = self._started.pop(0)
            if future.set_running_or_notify_cancel():
                computed = super().submit(compute)
                if (error := computed.exception()) is not None:
                    future.set_exception(error)
                else:
                    future.set_result(computed.result())


def pace_runner(engine: LLMEngine, *, late: bool) -> None:
    """Let an engine's runner thread compute early or late, whatever else the machine does."""
    if isinstance(engine, OverlappingEngine):
        thread = LateThread if late else EarlyThread
        engine.runner_thread._executor = thread(max_workers=1, thread_name_prefix="paced-runner")
