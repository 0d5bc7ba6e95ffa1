"""A pretend GPU: its tensors hold values but report a different device, and blocking operations are recorded.

torch calls a mode for every operator, so no Python name needs to be listed. `bool(tensor)`, `tolist` and indexing with
a list all end in one of a few operators that wait for a GPU.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

GPU, HOST = torch.device("meta"), torch.device("cpu")
READS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::equal"}
INDEXED = {"aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"}


class GpuTensor(Tensor):
    """A tensor on the pretend GPU; `numbers` holds its values on the host."""

    numbers: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor) -> "GpuTensor":
        strides, dtype = numbers.stride(), numbers.dtype
        made: Any = Tensor._make_wrapper_subclass(cls, numbers.size(), strides=strides, dtype=dtype, device=GPU)
        made.numbers = numbers
        return made  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        return self.to(HOST).tolist()  # one copy is allowed, as for a tensor on a real GPU

    @classmethod
    def __torch_dispatch__(cls, func: Any, *given: Any) -> Any:
        raise AssertionError(f"{func} was called outside the mode")


class PretendedGpu(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs operators on pretend tensors.

    `waits` lists each operator that makes a program wait for the GPU.

    A value copied to the host without waiting reads as 0 there until the next wait.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: list[str] = []
        self.on_the_way: list[tuple[Tensor, Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func._schema.name, dict(kwargs or {})
        tensors = [one for one in args if isinstance(one, Tensor)]
        if any(one.device == GPU and not isinstance(one, GpuTensor) for one in tensors):
            raise AssertionError(
                f"{name}: creating a tensor on the GPU from Python numbers waits until they are copied"
            )
        with self:  # in inference mode, a composite operator arrives as a whole
            if (result := func.decompose(*args, **kwargs)) is not NotImplemented:
                return result
        is_on_gpu = [isinstance(one, GpuTensor) for one in tensors]
        to_gpu = is_on_gpu[0] if name == "aten::copy_" else kwargs.get("device", GPU if any(is_on_gpu) else HOST) == GPU
        kwargs |= {"device": HOST} if "device" in kwargs else {}
        result = func(*tree_map(numbers_of, args), **tree_map(numbers_of, kwargs))
        crosses = name in ("aten::copy_", "aten::_to_copy") and is_on_gpu[-1] != to_gpu
        can_go_on = kwargs.get("non_blocking") or (name == "aten::copy_" and True in args[2:])
        is_unknown = name in INDEXED and is_on_gpu[0] and not is_known_to_the_gpu(args)
        if (name in READS and any(is_on_gpu)) or (crosses and not can_go_on) or is_unknown:
            self.wait(name)
        elif crosses and not to_gpu:
            self.on_the_way.append((result, result.clone()))
            result.zero_()
        if func._schema.is_mutable:
            return args[0]
        return tree_map(lambda one: GpuTensor(one) if isinstance(one, Tensor) else one, result) if to_gpu else result

    def wait(self, why: str) -> None:
        self.waits.append(why)
        for arrived, numbers in self.on_the_way:
            arrived.copy_(numbers)
        self.on_the_way.clear()


def numbers_of(one: Any) -> Any:
    return one.numbers if isinstance(one, GpuTensor) else one


def is_known_to_the_gpu(args: Any) -> bool:
    """Return whether every index is on the GPU and is not a mask, whose length would require a wait. A mask is allowed
    if it is filled with a single number."""
    is_fill = len(args) > 2 and args[2].numel() == 1
    indices = [one for one in args[1] if isinstance(one, Tensor)]
    return all(isinstance(one, GpuTensor) and (is_fill or one.dtype != torch.bool) for one in indices)
