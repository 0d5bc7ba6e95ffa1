"""Messages between rank 0 and its workers, pickled, through the workers' standard input and output.

vLLM broadcasts the plan of a step, and every worker builds its tensors. Here rank 0 builds and sends them, so a
worker needs no requests.
"""

import pickle
from dataclasses import dataclass, fields
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from mini_vllm.config import EngineConfig
from mini_vllm.runner.steps import FlatBatch, StepsFor


@dataclass(frozen=True, slots=True)
class Start:
    """The model to load, phase 6 and the rank."""

    model: str | None
    config: EngineConfig
    steps_for: StepsFor
    rank: int
    size: int


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """Sent by a worker before it exits: the reason."""

    text: str


def send(stream: IO[bytes], message: Any) -> None:
    """Write one message. Raises `OSError` if the other end is closed."""
    pickle.dump(message, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Wait for one message. Raises `EOFError` if the other end is closed."""
    return pickle.load(stream)


def as_arrays(flat: FlatBatch) -> dict[str, Any]:
    """Return a batch as numpy arrays, which pickle faster than tensors."""
    values = {field.name: getattr(flat, field.name) for field in fields(flat) if field.init}
    return {name: value.numpy(force=True) if isinstance(value, Tensor) else value for name, value in values.items()}


def as_batch(arrays: dict[str, Any], device: torch.device) -> FlatBatch:
    """Return the batch that `as_arrays` turned into `arrays`, on `device`."""
    values: dict[str, Any] = {
        name: torch.from_numpy(value).to(device) if isinstance(value, np.ndarray) else value
        for name, value in arrays.items()
    }
    return FlatBatch(**values)
