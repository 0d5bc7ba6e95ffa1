"""Linear layers with weights reordered for the CPU's matrix products.

A decode step multiplies every weight by a few rows. oneDNN does that about twice as fast if the weights are reordered
once, ahead of time. Layers with the same input (q, k and v; gate and up) are combined into one product. For a single
row the plain product is faster, so small layers also keep their plain weights. The two operators used for this are
private to torch; if they are missing, nothing is packed. Model code may read the `weight`, `bias` and sizes of a packed
layer.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

ROWS_HINT = 32  # the weights' order is optimised for this number of rows; it was fastest, or tied, from 1 to 2048 rows
SAME_INPUT = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
MAX_PLAIN_BYTES = 2 * 2**20  # size of the largest layer that also keeps its plain weights, for one-row steps
PACKED_DTYPES = (torch.float32, torch.bfloat16)


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether this torch has the operators and supports this device and dtype."""
    operators = torch.ops.mkldnn
    if device.type != "cpu" or dtype not in PACKED_DTYPES or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if not (hasattr(operators, "_reorder_linear_weight") and hasattr(operators, "_linear_pointwise")):
        return False
    return dtype is torch.float32 or bool(operators._is_mkldnn_bf16_supported())


class PackedLinear(nn.Module):
    """A matrix product that replaces one or more `nn.Linear` layers that share an input, and frees their weights."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.sizes = [len(layer.weight) for layer in layers]
        weight = torch.cat([layer.weight.detach() for layer in layers])
        self.packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS_HINT)
        keeps_plain = weight.dtype is torch.float32 and weight.nbytes <= MAX_PLAIN_BYTES
        self.plain = weight.t().contiguous() if keeps_plain else None
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        self.bias = torch.cat(biases) if biases else None
        self.out_features, self.in_features = weight.shape

    @cached_property
    def weight(self) -> Tensor:
        """The exact plain weights, cached when model code first reads them."""
        return self.packed.to_dense() if self.plain is None else self.plain.t()

    def forward(self, inputs: Tensor) -> Tensor:
        if self.plain is not None and inputs.numel() == len(self.plain):
            return inputs @ self.plain if self.bias is None else inputs @ self.plain + self.bias
        product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self.packed, self.bias, "none", [], "")
        return product


class SharedProduct:
    """Computes a product on the first `take`, and drops it once all layers have taken their columns.

    A `take` with a different input, or a second `take` for the same layer, recomputes the product, so the result always
    matches the input.
    """

    def __init__(self, product: Any) -> None:  # a `PackedLinear` or an `Int8Linear`
        self.product = product
        self.inputs: Tensor | None = None
        self.columns: dict[int, Tensor] = {}

    def take(self, index: int, inputs: Tensor) -> Tensor:
        """Return the columns of layer `index` for these inputs."""
        if inputs is not self.inputs or index not in self.columns:
            self.inputs = inputs
            self.columns = dict(enumerate(self.product(inputs).split(self.product.sizes, dim=-1)))
        columns = self.columns.pop(index)
        if not self.columns:
            self.inputs = None
        return columns


class SharedColumns(nn.Module):
    """Replaces one of the layers that share a product."""

    def __init__(self, shared: SharedProduct, index: int) -> None:
        super().__init__()
        self.shared, self.index = shared, index
        self.in_features, self.out_features = shared.product.in_features, shared.product.sizes[index]

    @property
    def weight(self) -> Tensor:
        return torch.split(self.shared.product.weight, self.shared.product.sizes)[self.index]

    @property
    def bias(self) -> Tensor | None:
        product = self.shared.product
        return None if product.bias is None else torch.split(product.bias, product.sizes)[self.index]

    def forward(self, inputs: Tensor) -> Tensor:
        return self.shared.take(self.index, inputs)


def pack_linear_layers(model: Any, kind: Any = None) -> int:
    """Replace a model's linear layers with packed ones, in place; return the number of products.

    The plain weights are freed, except those tied to an embedding. `kind` is the products' class; None means
    `PackedLinear`. On a GPU, for unsupported dtypes, or if the operators are missing, the model does not change and the
    result is 0.
    """
    if kind is None and not can_pack(torch.device(model.device), model.dtype):
        return 0
    head = None if kind is None else model.get_output_embeddings()  # not rounded, as in vLLM
    return sum(_pack_children(module, kind or PackedLinear, head) for module in list(model.modules()))


def _pack_children(module: nn.Module, kind: Any, head: Any) -> int:
    linear = {
        name: child
        for name, child in module.named_children()
        if type(child) is nn.Linear
        and child is not head
        and child.weight.dtype in PACKED_DTYPES
        and (kind is PackedLinear or child.in_features % 4 == 0)  # the C code reads integers in groups of four
    }
    groups = [names for names in SAME_INPUT if _can_join([linear.get(name) for name in names])]
    alone = linear.keys() - {name for names in groups for name in names}
    for name in alone:
        setattr(module, name, kind([linear[name]]))
    for names in groups:
        shared = SharedProduct(kind([linear[name] for name in names]))
        for index, name in enumerate(names):
            setattr(module, name, SharedColumns(shared, index))
    return len(alone) + len(groups)


def _can_join(layers: Sequence[nn.Linear | None]) -> bool:
    present = [layer for layer in layers if layer is not None]
    return (
        len(present) == len(layers)
        and len({layer.in_features for layer in present}) == 1
        and len({layer.bias is None for layer in present}) == 1
    )
