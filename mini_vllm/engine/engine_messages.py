"""Messages between the server and the engine's process, except outputs."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.llm_engine import LLMEngine

OpenEngine = Callable[[], LLMEngine]  # a module-level function, a method of a picklable object, or a `partial`
Tell = Callable[[str], None]
# A function that watches the engine from inside its process. Its first argument is a function that stops the engine and
# gives a reason. Its second argument is a function that reports a slow call, and that receives an empty string when the
# call ends.
Watch = Callable[[Tell, Tell], None]


class Opened(NamedTuple):
    """Reports that the engine is open, and carries the parts that a server keeps in its own process."""

    config: EngineConfig
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True)
class RunFunction:
    """Call a function with the engine, between two steps or during one.

    The function is pickled separately, so that only its own call fails if the process cannot import it.
    """

    function: bytes
    during_step: bool = False


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """Abort a request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class StepOnce:
    """Take one step of a paused engine."""


@dataclass(frozen=True, slots=True)
class SetPaused:
    """Pause the engine after its current step, or resume it."""

    is_paused: bool


@dataclass(frozen=True, slots=True)
class EndProcess:
    """End the process once all calls made so far have been handled."""


EngineMessage = RunFunction | AbortRequest | StepOnce | SetPaused | EndProcess


class Call(NamedTuple):
    """A message to the process, with a number that identifies its reply. Messages are handled in the order in which
    they were sent."""

    call_id: int
    message: EngineMessage


class EngineReply(NamedTuple):
    """The result or the error of a call."""

    call_id: int
    result: Any
    error: BaseException | None

    def complete(self, future: "Future[Any]") -> None:
        """Set the result or the error on the caller's future."""
        if self.error is None:
            future.set_result(self.result)
        else:
            future.set_exception(self.error)
