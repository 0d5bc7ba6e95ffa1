"""A Llama's forward pass with its layers in C (`llama_layer.c`), if there is a compiler.

In torch a layer consists of dozens of operators, and launching them costs a small model more than its arithmetic. In
this module a layer consists of two calls, with phase 6 between them.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from mini_vllm.freed_memory import release_freed_memory
from mini_vllm.runner.c_library import can_compile, torch_threads
from mini_vllm.runner.int8_linear import Int8Linear
from mini_vllm.runner.llama import LlamaModel, is_llama, paged_model
from mini_vllm.runner.loading import LoadedModel
from mini_vllm.runner.packed_linear import pack_linear_layers
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.panel_product import PanelProduct, addresses, layer_functions, room_for, threads_for
from mini_vllm.runner.steps import FlatBatch, RunnerSteps

DTYPES = (torch.float32, torch.bfloat16)


def can_be_compiled(model: Any, *, is_int8: bool = False) -> bool:
    """Return whether C can run this model: a Llama on a CPU, without biases except in Q, K and V."""
    if not is_llama(model) or model.device.type != "cpu" or model.dtype not in DTYPES:
        return False
    if not torch_threads() or not can_compile():  # a single thread would be slower than all of torch's threads
        return False
    decoder = model.model.layers[0]
    has_biases = any(layer.bias is not None for layer in (decoder.self_attn.o_proj, decoder.mlp.down_proj))
    functions, sizes = layer_functions(model.dtype, is_int8), decoder.self_attn.o_proj.weight.shape
    are_whole = model.config.intermediate_size % functions.columns_of_a_panel() == 0
    # The panels of the gate and up projections must cover the same columns, and the C code reads numbers in groups of
    # two or four.
    return not has_biases and are_whole and all(size % (4 if is_int8 else 2) == 0 for size in sizes)


class CompiledLlama(LlamaModel):
    """A `LlamaModel` with its layers in C. The original weights of the linear layers are freed."""

    def __init__(self, *arguments: Any, is_int8: bool = False) -> None:
        self.is_int8 = is_int8
        super().__init__(*arguments)
        config = self.model.config
        heads = (self.num_heads * 2 + self.num_kv_heads * 2) * self.head_dim
        self.weights_of_layer: int = config.hidden_size * (heads + 3 * config.intermediate_size)

    def product(self, *layers: Any) -> PanelProduct:
        """Return one matrix product that replaces linear layers that share an input, and free their original
        weights."""
        # rounding the logits would change most of the chosen tokens
        is_int8 = self.is_int8 and layers[0] is not self.model.lm_head
        product = PanelProduct.of(*layers, is_int8=is_int8)
        for layer in layers:
            if layer.weight is not self.embedding:  # the embedding also serves as the lookup table
                layer.weight.data = torch.empty(0, dtype=layer.weight.dtype)
        return product

    @torch.inference_mode()
    def forward(self, flat: FlatBatch) -> Tensor:
        """Compute a step; return logits [S, vocab] for the rows in `logits_indices`."""
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
        functions, (rows, size) = layer_functions(hidden.dtype, self.is_int8), hidden.shape
        to_round = room_for(rows, max(size, output.depth, down.depth), self.is_int8)
        start = (rows, threads_for(rows * self.weights_of_layer), self.norm_eps, size)
        heads = hidden.new_empty(rows, num_turned + self.num_kv_heads, self.head_dim)
        functions.before_attention(
            *start,
            self.head_dim,
            heads.shape[1],
            num_turned,
            *addresses(hidden, layer.attention_norm, qkv.weight, qkv.bias, layer.head_norm, *turns),
            *addresses(room, to_round, heads),
        )
        query, key, value = torch.split(heads, [self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=1)
        self.write_kv(key, value, key_cache, value_cache, batch.slot_mapping)
        attended = self.attention_of_layer[number](query, key_cache, value_cache, batch, self.head_dim**-0.5)
        gated = hidden.new_empty(rows, down.depth)
        weights = (output.weight, layer.mlp_norm, gate_up.weight, down.weight)
        tensors = (attended.contiguous(), *weights, hidden, room, to_round, gated)
        functions.after_attention(*start, output.depth, down.depth, *addresses(*tensors))

    def _logits(self, last: Tensor, room: Tensor) -> Tensor:
        product = self.logits
        assert isinstance(product, PanelProduct)
        logits = last.new_empty(len(last), product.width)
        layer_functions(last.dtype, False).compute_logits(
            len(last),
            threads_for(product.weight.numel() * len(last)),
            self.norm_eps,
            product.depth,
            product.width,
            *addresses(last, self.last_norm, product.weight, room, None, logits),
        )
        return logits


def packed_model(
    loaded: LoadedModel, steps: RunnerSteps, num_blocks: int, block_size: int, *, is_int8: bool = False
) -> PagedModel:
    """Return a paged model with its weights reordered for this CPU; the loaded model can no longer be saved."""
    if can_be_compiled(loaded.model, is_int8=is_int8):
        arguments = loaded, steps.write_kv, steps.paged_attention, num_blocks, block_size, steps.windows
        model: PagedModel = CompiledLlama(*arguments, is_int8=is_int8)
    else:
        pack_linear_layers(loaded.model, Int8Linear if is_int8 else None)
        model = paged_model(loaded, steps, num_blocks, block_size)
    if is_int8:
        for weight in loaded.model.parameters():
            # tensors that are views into a mapped file would keep the whole file in memory
            weight.data = weight.data.clone()
        release_freed_memory()
    return model
