"""Reusable memory for a step's integers; one copy moves them all to the device.

vLLM: `CpuGpuBuffer` in `v1/utils.py`; `GPUModelRunner` has one buffer per tensor.
"""

from collections.abc import Sequence, Sized
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

Numbers = Sequence[int] | Sequence[Sequence[int]]


class StepBuffer:
    """A row of int64 on the host, with a copy on the model's device if that is not the CPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._make_room(0)

    def stage(self, parts: Sequence[Numbers]) -> list[Tensor]:
        """Return each part, a row or a rectangle of numbers, as a tensor on the device.

        The tensors are valid until the next call, which overwrites them. This call does not wait for the copy, but
        reading the step's logits does. Raises `ValueError` if the rows of a rectangle differ in length.
        """
        shapes = [_shape(part) for part in parts]
        ends = list(accumulate(map(prod, shapes)))
        places = [slice(end - prod(shape), end) for shape, end in zip(shapes, ends, strict=True)]
        if ends[-1] > len(self._host):
            self._make_room(2 * ends[-1])
        for part, shape, place in zip(parts, shapes, places, strict=True):
            self._numbers[place].reshape(shape)[...] = part
        if self._staged is not self._host:
            self._staged[: ends[-1]].copy_(self._host[: ends[-1]], non_blocking=True)
        return [self._staged[place].view(shape) for shape, place in zip(shapes, places, strict=True)]

    def _make_room(self, size: int) -> None:
        self._host = torch.empty(size, dtype=torch.int64, pin_memory=self.device.type == "cuda")
        self._numbers = self._host.numpy()
        self._staged = self._host if self.device.type == "cpu" else torch.empty_like(self._host, device=self.device)


def _shape(part: Numbers) -> tuple[int, ...]:
    first = part[0] if len(part) else 0
    return (len(part), len(first)) if isinstance(first, Sized) else (len(part),)
