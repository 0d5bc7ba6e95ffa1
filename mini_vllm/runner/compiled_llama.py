"""A Llama's forward pass with its layers in C (`llama_layer.c`), if there is a compiler.

In torch a layer is dozens of operators, and launching them costs a small model more than its arithmetic. Here a layer
is two calls, with phase 6 between them.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from mini_vllm.core.cdiv import cdiv
from mini_vllm.runner.c_library import HERE, LENGTH, NUMBER, POINTER, can_compile, compile_library, torch_threads
from mini_vllm.runner.llama import LlamaModel, is_llama, paged_model
from mini_vllm.runner.loading import LoadedModel
from mini_vllm.runner.packed_linear import pack_linear_layers
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.steps import FlatBatch, RunnerSteps

DTYPES = (torch.float32, torch.bfloat16)
MIN_SHARED_WORK = 1_000_000  # multiplications above which several threads are faster than one
START = (LENGTH, LENGTH, NUMBER)  # rows, threads, and the epsilon of the norms
SIGNATURES = {
    "columns_of_a_panel": (),
    "pack": (POINTER, LENGTH, LENGTH, POINTER),
    "linear": (LENGTH, LENGTH, LENGTH, LENGTH, *[POINTER] * 4),
    "before_attention": (*START, *[LENGTH] * 4, *[POINTER] * 9),
    "after_attention": (*START, *[LENGTH] * 3, *[POINTER] * 8),
    "compute_logits": (*START, LENGTH, LENGTH, *[POINTER] * 5),
}


@cache
def layer_functions(dtype: torch.dtype) -> Any:
    """Return the functions of `llama_layer.c`, compiled for this dtype."""
    source = HERE / "llama_layer.c"
    options = (f"-DIS_BFLOAT16={int(dtype is torch.bfloat16)}",)
    library = compile_library(source.name, source.read_text(encoding="utf-8"), options, is_kept=True)
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, LENGTH if name == "columns_of_a_panel" else None
    return library


def can_be_compiled(model: Any) -> bool:
    """Return whether C can compute this model: a Llama on a CPU without biases except in Q, K and V."""
    if not is_llama(model) or model.device.type != "cpu" or model.dtype not in DTYPES:
        return False
    if not torch_threads() or not can_compile():  # on one thread it would be slower than torch on all
        return False
    decoder = model.model.layers[0]
    has_biases = any(layer.bias is not None for layer in (decoder.self_attn.o_proj, decoder.mlp.down_proj))
    columns, sizes = layer_functions(model.dtype).columns_of_a_panel(), decoder.self_attn.o_proj.weight.shape
    # The gate's and the up projection's panels must cover the same columns, and C reads bfloat16 numbers in pairs.
    return not has_biases and model.config.intermediate_size % columns == 0 and all(size % 2 == 0 for size in sizes)


@dataclass(frozen=True, slots=True)
class PanelProduct:
    """The product of linear layers with the same input, with `weight` packed for the C code."""

    weight: Tensor
    bias: Tensor | None
    depth: int
    width: int

    @classmethod
    def of(cls, *layers: Any) -> "PanelProduct":
        """Pack the weights of layers, in order."""
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        plain = torch.cat([layer.weight.detach() for layer in layers])
        functions, (width, depth) = layer_functions(plain.dtype), plain.shape
        pair = 2 * functions.columns_of_a_panel()  # panels are multiplied in pairs
        weight = torch.empty(cdiv(width, pair) * pair * depth, dtype=plain.dtype)
        functions.pack(plain.data_ptr(), width, depth, weight.data_ptr())
        return cls(weight, torch.cat(biases) if biases else None, depth, width)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Multiply inputs [rows, depth]; used for a layer with adapters."""
        inputs = inputs.contiguous()
        output = torch.empty(len(inputs), self.width, dtype=inputs.dtype)
        layer_functions(inputs.dtype).linear(
            len(inputs),
            threads_for(len(inputs) * self.weight.numel()),
            self.depth,
            self.width,
            *addresses(inputs, self.weight, self.bias, output),
        )
        return output


def threads_for(work: int) -> int:
    """Return the number of threads for this many multiplications."""
    return torch.get_num_threads() if work >= MIN_SHARED_WORK else 1


def addresses(*tensors: Tensor | None) -> list[int | None]:
    """Return the tensors' data pointers; None stays None."""
    return [None if tensor is None else tensor.data_ptr() for tensor in tensors]


class CompiledLlama(LlamaModel):
    """A `LlamaModel` with its layers in C. The original weights of the linear layers are freed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        config = self.model.config
        heads = (self.num_heads * 2 + self.num_kv_heads * 2) * self.head_dim
        self.weights_of_layer: int = config.hidden_size * (heads + 3 * config.intermediate_size)

    def product(self, *layers: Any) -> PanelProduct:
        """Return one product for linear layers with the same input, and free their original weights."""
        product = PanelProduct.of(*layers)
        for layer in layers:
            if layer.weight is not self.embedding:  # the embedding also serves as the lookup table
                layer.weight.data = torch.empty(0, dtype=layer.weight.dtype)
        return product

    @torch.inference_mode()
    def forward(self, flat: FlatBatch) -> Tensor:
        """Compute a step; return logits [S, vocab] of the rows in `logits_indices`."""
        panels = [[one for one in layer.products if isinstance(one, PanelProduct)] for layer in self.layers]
        if any(len(found) < len(layer.products) for found, layer in zip(panels, self.layers, strict=True)):
            return super().forward(flat)  # adapters must be added to the products inside a layer
        hidden = embedding(flat.input_ids, self.embedding)  # [T, hidden size]
        angles = flat.positions[:, None] * self.inv_freq
        turns = [(numbers * self.rotary_scale).contiguous() for numbers in (angles.cos(), angles.sin())]  # [T, D / 2]
        room = torch.empty_like(hidden)
        for number, products in enumerate(panels):
            self._compiled_layer(number, products, hidden, turns, room, flat)
        return self._logits(hidden[flat.logits_indices], room)

    def _compiled_layer(
        self,
        number: int,
        products: list[PanelProduct],
        hidden: Tensor,
        turns: list[Tensor],
        room: Tensor,
        flat: FlatBatch,
    ) -> None:
        (qkv, output, gate_up, down), layer = products, self.layers[number]
        batch = flat.of_layers(self.group_of_layer[number])
        key_cache, value_cache = self.key_caches[number], self.value_caches[number]
        num_turned = self.num_heads + self.num_kv_heads
        functions, (rows, size) = layer_functions(hidden.dtype), hidden.shape
        start = (rows, threads_for(rows * self.weights_of_layer), self.norm_eps, size)
        heads = hidden.new_empty(rows, num_turned + self.num_kv_heads, self.head_dim)
        functions.before_attention(
            *start,
            self.head_dim,
            heads.shape[1],
            num_turned,
            *addresses(hidden, layer.attention_norm, qkv.weight, qkv.bias, layer.head_norm, *turns, room, heads),
        )
        query, key, value = torch.split(heads, [self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=1)
        self.write_kv(key, value, key_cache, value_cache, batch.slot_mapping)
        attended = self.attention_of_layer[number](query, key_cache, value_cache, batch, self.head_dim**-0.5)
        gated = hidden.new_empty(rows, down.depth)
        weights = (output.weight, layer.mlp_norm, gate_up.weight, down.weight)
        functions.after_attention(
            *start, output.depth, down.depth, *addresses(attended.contiguous(), *weights, hidden, room, gated)
        )

    def _logits(self, last: Tensor, room: Tensor) -> Tensor:
        product = self.logits
        assert isinstance(product, PanelProduct)
        logits = last.new_empty(len(last), product.width)
        layer_functions(last.dtype).compute_logits(
            len(last),
            threads_for(product.weight.numel() * len(last)),
            self.norm_eps,
            product.depth,
            product.width,
            *addresses(last, self.last_norm, product.weight, room, logits),
        )
        return logits


def packed_model(loaded: LoadedModel, steps: RunnerSteps, num_blocks: int, block_size: int) -> PagedModel:
    """Return a paged model with its weights reordered for this CPU; the loaded model can no longer be saved."""
    if can_be_compiled(loaded.model):
        return CompiledLlama(loaded, steps.write_kv, steps.paged_attention, num_blocks, block_size, steps.windows)
    pack_linear_layers(loaded.model)
    return paged_model(loaded, steps, num_blocks, block_size)
