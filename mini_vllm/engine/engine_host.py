"""Where the engine of an `AsyncLLM` lives: on a thread beside its readers, or in a process of its own."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.outputs import RequestOutput

Result = TypeVar("Result")


class EngineHost(Protocol):
    """Owns an engine, takes its steps, and runs functions of it. (vLLM: `EngineCoreClient` of `core_client.py`.)

    `call`, `abort` and `step_once` raise `ShuttingDownError` after `end`, and `EngineDeadError` if an error has ended
    what owns the engine.
    """

    config: EngineConfig
    tokenizer: Tokenizer

    @property
    def is_alive(self) -> bool:
        """Whether the engine can take steps."""
        ...

    @property
    def is_paused(self) -> bool: ...

    @property
    def seconds_in_step(self) -> float:
        """How long the step that is being taken has lasted, 0 between two steps: more than seconds is a loop."""
        ...

    def call(self, function: Callable[[LLMEngine], Result]) -> "Future[Result]":
        """Run a function of the engine between two steps."""
        ...

    def call_during_step(self, function: Callable[[LLMEngine], Result]) -> "Future[Result]":
        """Run a function that only reads the engine, at once: in the middle of a step, too."""
        ...

    def abort(self, request_id: str) -> "Future[RequestOutput | None]":
        """End a request between two steps; the result is its last output."""
        ...

    def step_once(self) -> "Future[None]":
        """Take one step, if there is anything to do, and deliver its outputs."""
        ...

    def pause(self) -> None:
        """Take no further step of its own accord."""
        ...

    def resume(self) -> None:
        """Take steps again."""
        ...

    def end(self) -> None:
        """End after what has been called for so far."""
        ...

    def abandon(self) -> None:
        """Give up an engine that does not end: a process is killed, a thread left alone."""
        ...
