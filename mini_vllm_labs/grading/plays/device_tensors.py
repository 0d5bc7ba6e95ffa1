"""Detects tensors on the wrong device, without a GPU.

On a machine with a GPU, the arguments are on the GPU, and a tensor made without `device=` is on the host. Here the
arguments are `DeviceTensor`s: their `device` is torch's `meta`, but they contain actual numbers. Tensors computed from
the arguments or made with their device are also `DeviceTensor`s; all other tensors are on the host. Mixing the two
kinds of tensors raises torch's error.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mini_vllm.runner.steps import FlatBatch

DEVICE, HOST = torch.device("meta"), torch.device("cpu")
DEVICE_OF: Any = Tensor.device.__get__
MOVES: set[Any] = {Tensor.type_as, Tensor.to}
TO_HOST: set[Any] = {Tensor.cpu, Tensor.numpy}
MAY_MIX: set[Any] = {Tensor.__getitem__, Tensor.__setitem__, Tensor.copy_, *MOVES}
"""torch accepts index tensors on the host and copies from it."""
MESSAGE = "Expected all tensors to be on the same device, but found at least two devices: the arguments' and the host"


class DeviceTensor(Tensor):
    """A tensor on the arguments' device."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == DEVICE_OF:
            return DEVICE
        with torch._C.DisableTorchFunctionSubclass():
            # Scalars are skipped, because torch can mix them with tensors on any device.
            kinds = [isinstance(one, DeviceTensor) for one in _tensors([args, kwargs or {}]) if one.dim() > 0]
            if len(set(kinds)) > 1 and func not in MAY_MIX:
                raise RuntimeError(MESSAGE)
            is_on_device = not kinds or kinds[-1 if func in MOVES else 0]
            return marked(func(*args, **(kwargs or {})), is_on_device and func not in TO_HOST)


class OnDevice(TorchFunctionMode):
    """Turns tensors created on the arguments' device into `DeviceTensor`s, and tensors created on the host into plain
    ones."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [one for one in (*args, *(kwargs or {}).values()) if isinstance(one, torch.device | str)]
        devices = [torch.device(one) for one in given if str(one).partition(":")[0] in ("meta", "cpu")]
        if not devices or func is torch.device:
            return func(*args, **(kwargs or {}))
        args = [HOST if isinstance(one, torch.device | str) else one for one in args]
        kwargs = {name: HOST if isinstance(one, torch.device | str) else one for name, one in (kwargs or {}).items()}
        with torch._C.DisableTorchFunctionSubclass():
            return marked(func(*args, **kwargs), devices[0] == DEVICE)


def marked(result: Any, is_on_device: bool) -> Any:
    """Mark all tensors in a result as on the device or on the host."""
    if isinstance(result, Tensor):
        return result.as_subclass(DeviceTensor if is_on_device else Tensor)
    if isinstance(result, list | tuple):
        return type(result)(marked(one, is_on_device) for one in result)
    return result


def _tensors(found: Any) -> Iterator[Tensor]:
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, list | tuple | dict):
        for one in found.values() if isinstance(found, dict) else found:
            yield from _tensors(one)


def on_device(argument: Any) -> Any:
    """Return a tensor or a batch of tensors that appear to be on a GPU and share the argument's memory."""
    if isinstance(argument, FlatBatch):
        return replace(argument, **{part.name: on_device(getattr(argument, part.name)) for part in fields(argument)})
    return marked(argument, True) if isinstance(argument, Tensor) else argument
