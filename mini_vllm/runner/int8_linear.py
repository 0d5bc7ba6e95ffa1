"""Linear layers in int8 (W8A8) for models that only transformers' modules can run.

Weights are rounded with a scale per row, and inputs with a scale per token, so that a token's results do not depend on
its batch. (vLLM: `CompressedTensorsW8A8Int8`.) torch's own `_int_mm` is not used, because its sums saturate on
processors without VNNI (torch 2.13.0).
"""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from mini_vllm.runner.c_library import can_compile
from mini_vllm.runner.panel_product import PanelProduct


class Int8Linear(nn.Module):
    """A matrix product that replaces one or more `nn.Linear` layers that share an input, and frees their weights."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.sizes = [len(layer.weight) for layer in layers]
        self.product = PanelProduct.of(*layers, is_int8=True)
        self.dtype, self.bias = layers[0].weight.dtype, self.product.bias
        self.out_features, self.in_features = self.product.width, self.product.depth

    @cached_property
    def weight(self) -> Tensor:
        """The rounded weights as a plain tensor, cached when model code first reads them."""
        weight = self.forward(torch.eye(self.in_features, dtype=self.dtype))
        return (weight if self.bias is None else weight - self.bias).t()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.product(inputs.reshape(-1, self.in_features)).view(*inputs.shape[:-1], -1)


def require_int8(device: torch.device) -> None:
    """Raise `ValueError` if int8 weights are not supported on this device."""
    if device.type != "cpu":
        raise ValueError(f"quantization='int8' needs a CPU, but the model is on {device}: set it to None")
    if not can_compile():
        raise ValueError("quantization='int8' needs a C compiler (cc, gcc or clang): install one, or set it to None")
