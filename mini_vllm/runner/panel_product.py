"""Weights packed for `llama_layer.c`, either unchanged or rounded to int8, and the functions that use them."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from mini_vllm.core.cdiv import cdiv
from mini_vllm.runner.c_library import HERE, LENGTH, NUMBER, POINTER, compile_library

MIN_SHARED_WORK = 1_000_000  # number of multiplications above which several threads are faster than one
START = (LENGTH, LENGTH, NUMBER)  # rows, threads, and the norms' epsilon
SIGNATURES = {
    "columns_of_a_panel": (),
    "pack": (POINTER, POINTER, LENGTH, LENGTH, POINTER),
    "linear": (LENGTH, LENGTH, LENGTH, LENGTH, *[POINTER] * 5),
    "before_attention": (*START, *[LENGTH] * 4, *[POINTER] * 10),
    "after_attention": (*START, *[LENGTH] * 3, *[POINTER] * 9),
    "compute_logits": (*START, LENGTH, LENGTH, *[POINTER] * 6),
}


@cache
def layer_functions(dtype: torch.dtype, is_int8: bool, more: tuple[str, ...] = ()) -> Any:
    """Return the functions of `llama_layer.c`, compiled for this dtype and weight type with the extra options in
    `more`."""
    source = HERE / "llama_layer.c"
    options = (f"-DIS_BFLOAT16={int(dtype is torch.bfloat16)}", f"-DIS_INT8={int(is_int8)}", *more)
    library = compile_library(source.name, source.read_text(encoding="utf-8"), options, is_kept=True)
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, LENGTH if name == "columns_of_a_panel" else None
    return library


@dataclass(frozen=True, slots=True)
class PanelProduct:
    """The matrix product for linear layers with the same input, with `weight` packed for the C code.

    With int8, each panel column has two additional 4-byte numbers.
    """

    weight: Tensor
    bias: Tensor | None
    depth: int
    width: int

    @classmethod
    def of(cls, *layers: Any, is_int8: bool = False) -> "PanelProduct":
        """Pack the weights of layers, in order."""
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        plain, scales = torch.cat([layer.weight.detach() for layer in layers]), None
        functions, (width, depth) = layer_functions(plain.dtype, is_int8), plain.shape
        if is_int8:
            numbers = plain.float()
            scales = numbers.abs().amax(dim=1) / 127
            plain = (numbers / scales.clamp(min=1e-30)[:, None]).round().to(torch.int8)
        pair = 2 * functions.columns_of_a_panel()  # panels are multiplied in pairs
        weight = torch.empty(cdiv(width, pair) * pair * (depth + 8 * is_int8), dtype=plain.dtype)
        functions.pack(*addresses(plain, scales), width, depth, weight.data_ptr())
        return cls(weight, torch.cat(biases) if biases else None, depth, width)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Multiply inputs [rows, depth]; used for a layer with adapters."""
        inputs, is_int8 = inputs.contiguous(), self.weight.dtype is torch.int8
        room = room_for(len(inputs), self.depth, is_int8)
        output = torch.empty(len(inputs), self.width, dtype=inputs.dtype)
        layer_functions(inputs.dtype, is_int8).linear(
            len(inputs),
            threads_for(len(inputs) * self.weight.numel()),
            self.depth,
            self.width,
            *addresses(inputs, self.weight, self.bias, room, output),
        )
        return output


def room_for(num_rows: int, depth: int, is_int8: bool) -> Tensor | None:
    """Return buffers for the input rows that C rounds to int8, and for their scales; None if nothing is rounded."""
    return torch.empty(num_rows, depth + 4, dtype=torch.uint8) if is_int8 else None


def threads_for(work: int) -> int:
    """Return the number of threads to use for this many multiplications."""
    return torch.get_num_threads() if work >= MIN_SHARED_WORK else 1


def addresses(*tensors: Tensor | None) -> list[int | None]:
    """Return the tensors' data pointers; None stays None."""
    return [None if tensor is None else tensor.data_ptr() for tensor in tensors]
