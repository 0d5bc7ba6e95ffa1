"""What an engine is made of."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mini_vllm.config import EngineConfig
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.electives.gates.transferring_runner import TransferringRunner
from mini_vllm.engine.observers import StepObserver
from mini_vllm.engine.structured_output import StructuredOutputManager


@dataclass(frozen=True, slots=True)
class EngineParts:
    """The parts of an `LLMEngine`, put together by `assembly/build.py`. A resolved `config` goes with them.

    `clock`, in seconds, stamps arrivals. `adapter_names` are the adapters of a real model; None: the fake model, which
    invents adapters and images. `model_id` tells the model from others. `repetition_penalty` is for requests without.
    """

    config: EngineConfig
    scheduler: Scheduler
    runner: ModelRunner
    tokenizer: Tokenizer
    observers: Sequence[StepObserver] = ()
    clock: Callable[[], float] = time.monotonic
    grammars: StructuredOutputManager | None = None
    transfers: TransferringRunner | None = None
    adapter_names: frozenset[str] | None = None
    model_id: str = ""
    repetition_penalty: float = 1.0
