"""Show tensors that are made on the wrong device, without a GPU.

On a machine with a GPU the arguments are on the GPU, and a tensor made without `device=` is on the host. Here such a
tensor becomes a `HostTensor`, which raises torch's error as soon as an operation mixes it with an argument.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from course.labtest.expect import lab_failure

FACTORIES = {torch.arange, torch.tensor, torch.zeros, torch.ones, torch.empty, torch.full, torch.eye, torch.linspace}
MOVES: set[Any] = {Tensor.to, Tensor.cuda, Tensor.type_as}
MAY_MIX: set[Any] = {Tensor.__getitem__, Tensor.__setitem__, Tensor.copy_, *MOVES}
"""torch takes index tensors from the host, and copies from it."""
MESSAGE = "Expected all tensors to be on the same device, but found at least two devices: the arguments' and the host"


class HostTensor(Tensor):
    """A tensor that was made without `device=`."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = list(_tensors([args, list((kwargs or {}).values())]))
        with torch._C.DisableTorchFunctionSubclass():
            # Single numbers are left out: torch mixes them with tensors of any device.
            kinds = {isinstance(tensor, HostTensor) for tensor in tensors if tensor.dim() > 0}
        if len(kinds) > 1 and func not in MAY_MIX:
            raise RuntimeError(MESSAGE)
        result = super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        on_device = func in MOVES or (func in MAY_MIX and not isinstance(tensors[0], HostTensor)) or False in kinds
        if on_device and isinstance(result, HostTensor):
            with torch._C.DisableTorchFunctionSubclass():
                return result.as_subclass(Tensor)
        return result


def _tensors(found: Any) -> Iterator[Tensor]:
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, list | tuple):
        for one in found:
            yield from _tensors(one)


class FactoriesOnHost(TorchFunctionMode):
    """Turns what torch makes without `device=` into a `HostTensor`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        is_on_host = func in FACTORIES and (kwargs or {}).get("device") is None
        return result.as_subclass(HostTensor) if is_on_host else result


def with_arguments_on_a_device(call: Callable[[], Any], function: str, situation: str) -> Any:
    """Run a call as if its arguments were on a GPU; explain the error of a tensor that is not."""
    result, is_mixed = None, False
    try:
        with FactoriesOnHost():
            result = call()
    except RuntimeError as error:
        if str(error) != MESSAGE:
            raise
        is_mixed = True  # reported after the handler, or torch's traceback would come first
    if is_mixed:
        lab_failure(
            rule=f"Tensors that {function} makes are on the device of the tensors it is given.",
            situation=f"run as on a machine with a GPU, with all arguments on the GPU\n{situation}",
            expected="a result",
            yours=f"RuntimeError: {MESSAGE}",
            hint="which call of torch.arange, torch.tensor, torch.zeros, torch.ones or torch.empty has no `device=`?",
        )
    return result
