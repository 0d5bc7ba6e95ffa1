"""The parts of an engine."""

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
    """The parts of an `LLMEngine`, assembled by `assembly/build.py`. `config` is resolved.

    `clock` returns seconds and is used to timestamp arrivals. `adapter_names` are the adapters of a real model; None
    means the fake model, which accepts any adapter and image. `model_id` identifies the model. `repetition_penalty` is
    the default for requests.
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
