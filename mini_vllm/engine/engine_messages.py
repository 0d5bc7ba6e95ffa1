"""What the server and the engine's process tell each other, except outputs."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.llm_engine import LLMEngine

OpenEngine = Callable[[], LLMEngine]  # a function of a module, a method of a picklable object, or a `partial`
Tell = Callable[[str], None]
# Watches the engine where it is. The first argument ends it, with a reason; the second is told what takes long, and an
# empty text once that has ended.
Watch = Callable[[Tell, Tell], None]


class Opened(NamedTuple):
    """The engine is open: what a server needs to know of it without asking."""

    config: EngineConfig
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True)
class RunFunction:
    """Run a function of the engine between two steps, or during one.

    The function is pickled by itself, so that one which the process cannot import fails alone.
    """

    function: bytes
    during_step: bool = False


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """Abort a request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class StepOnce:
    """Take one step of an engine that is paused."""


@dataclass(frozen=True, slots=True)
class SetPaused:
    """Pause the engine after its step, or let it go on."""

    is_paused: bool


@dataclass(frozen=True, slots=True)
class End:
    """End the process after the calls made so far."""


EngineMessage = RunFunction | AbortRequest | StepOnce | SetPaused | End


class Call(NamedTuple):
    """What the process is to do, in the order of sending, and the number that its reply carries."""

    call_id: int
    message: EngineMessage


class EngineReply(NamedTuple):
    """What a call returned or raised."""

    call_id: int
    result: Any
    error: BaseException | None

    def complete(self, future: "Future[Any]") -> None:
        """Pass it on to the caller."""
        if self.error is None:
            future.set_result(self.result)
        else:
            future.set_exception(self.error)
