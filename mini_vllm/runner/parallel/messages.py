"""What rank 0 and its workers say to each other, pickled, through the workers' standard input and output.

vLLM broadcasts the plan of a step, and every worker makes its tensors itself. Here rank 0 makes them and sends
them: then a worker needs to know of no request.
"""

import pickle
from dataclasses import dataclass, fields
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from mini_vllm.config import EngineConfig
from mini_vllm.runner.steps import FlatBatch
from mini_vllm.seams.lineup import Impl


@dataclass(frozen=True, slots=True)
class Start:
    """What to load, and as which rank of how many. `impl` says whose phase 6 attends."""

    model: str | None
    config: EngineConfig
    impl: Impl
    rank: int
    size: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a worker ends."""

    text: str


def send(stream: IO[bytes], message: Any) -> None:
    """Write one message. Raises `OSError` if nobody reads any more."""
    pickle.dump(message, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Wait for one message. Raises `EOFError` if there will be none any more."""
    return pickle.load(stream)


def as_arrays(flat: FlatBatch) -> dict[str, Any]:
    """Return a batch as numpy arrays, which pickle in microseconds."""
    values = {field.name: getattr(flat, field.name) for field in fields(flat) if field.init}
    return {name: value.numpy(force=True) if isinstance(value, Tensor) else value for name, value in values.items()}


def as_batch(arrays: dict[str, Any], device: torch.device) -> FlatBatch:
    """Return the batch that became `arrays`, on `device`."""
    values: dict[str, Any] = {
        name: torch.from_numpy(value).to(device) if isinstance(value, np.ndarray) else value
        for name, value in arrays.items()
    }
    return FlatBatch(**values)
