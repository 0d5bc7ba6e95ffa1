"""The messages between an `EngineProcess` and its process, besides pieces of outputs."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal, NamedTuple

from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.llm_engine import LLMEngine

OpenEngine = Callable[[], LLMEngine]  # a function of a module, a method of a picklable object, or a `partial`
Watch = Callable[[Callable[[str], None]], None]  # watches the engine where it is; its argument ends it, with a reason
Method = Literal["call", "call_during_step", "abort", "step_once", "pause", "resume", "end"]  # of `EngineThread`


class Opened(NamedTuple):
    """The engine is open: what a server needs to know of it without asking."""

    config: EngineConfig
    tokenizer: Tokenizer


class Call(NamedTuple):
    """A method of the `EngineThread` to be called, in the order of sending; its arguments are pickled."""

    call_id: int
    method: Method
    arguments: bytes


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
