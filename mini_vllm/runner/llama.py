"""A Llama's forward pass, written out to replace transformers' modules.

transformers' modules support every architecture, but their overhead costs as much as the arithmetic of a small batch.
Llama, Mistral, Qwen2 and Qwen3 need only the same few lines. (vLLM: `model_executor/models/llama.py`; nano-vLLM does
the same.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, rms_norm, silu

from mini_vllm.electives.windows.window_functions import WindowFunctions
from mini_vllm.runner.loading import LoadedModel
from mini_vllm.runner.packed_linear import SharedColumns
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.steps import FlatBatch, PagedAttention, RunnerSteps, WriteKV

ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
# the other types change the frequencies with the sequence length
FIXED_ROPE_TYPES = ("default", "linear", "llama3", "yarn")

Product = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """The weights of one layer with H query heads and K key/value heads of D numbers each.

    `qkv` computes (H + 2 K) * D columns from the hidden state, and `gate_up` computes both halves of the MLP.
    `head_norm` [H + K, D] exists only in Qwen3 and scales each query and key head after normalisation.
    """

    attention_norm: Tensor
    qkv: Product
    head_norm: Tensor | None
    output: Product
    mlp_norm: Tensor
    gate_up: Product
    down: Product

    @property
    def products(self) -> tuple[Product, ...]:
        return self.qkv, self.output, self.gate_up, self.down


class LlamaModel(PagedModel):
    """A `PagedModel` of the Llama family that computes without transformers' modules, with the same weights."""

    def __init__(
        self,
        loaded: LoadedModel,
        write_kv: WriteKV,
        paged_attention: PagedAttention,
        num_blocks: int,
        block_size: int,
        windows: WindowFunctions | None = None,
    ) -> None:
        super().__init__(loaded, write_kv, paged_attention, num_blocks, block_size, windows)
        config, decoder = self.model.config, self.model.model
        self.head_dim, self.num_kv_heads = loaded.head_dim, loaded.num_kv_heads
        self.num_heads: int = config.num_attention_heads
        self.norm_eps: float = config.rms_norm_eps
        self.embedding: Tensor = decoder.embed_tokens.weight
        self.layers = [self._layer(layer) for layer in decoder.layers]
        self.last_norm: Tensor = decoder.norm.weight
        self.logits = self.product(self.model.lm_head)
        self.inv_freq: Tensor = decoder.rotary_emb.inv_freq.float()
        self.rotary_scale: float = decoder.rotary_emb.attention_scaling

    def _layer(self, layer: Any) -> LlamaLayer:
        attention, mlp = layer.self_attn, layer.mlp
        head_norm = None
        if hasattr(attention, "q_norm"):
            counted = ((attention.q_norm, self.num_heads), (attention.k_norm, self.num_kv_heads))
            head_norm = torch.cat([norm.weight.detach().expand(count, -1) for norm, count in counted])
        return LlamaLayer(
            attention_norm=layer.input_layernorm.weight,
            qkv=self.product(attention.q_proj, attention.k_proj, attention.v_proj),
            head_norm=head_norm,
            output=self.product(attention.o_proj),
            mlp_norm=layer.post_attention_layernorm.weight,
            gate_up=self.product(mlp.gate_proj, mlp.up_proj),
            down=self.product(mlp.down_proj),
        )

    def product(self, *layers: Any) -> Product:
        """Return one matrix product for linear layers with the same input."""
        return joined(*layers) if len(layers) > 1 else layers[0]

    @torch.inference_mode()
    def forward(self, flat: FlatBatch) -> Tensor:
        """Compute a step; return logits [S, vocab] for the rows in `logits_indices`."""
        cos, sin = self._rotary(flat.positions)
        hidden = embedding(flat.input_ids, self.embedding)  # [T, hidden size]
        for number, layer in enumerate(self.layers):
            hidden += self._attention(number, hidden, cos, sin, flat)
            hidden += self._mlp(layer, hidden)
        # Use only the rows that sample a token, because the multiplication by the vocabulary matrix is the most
        # expensive of all.
        return self.logits(self._norm(hidden[flat.logits_indices], self.last_norm))

    # With separate methods, a layer's intermediate tensors are freed on return, and the next layer reuses the memory.
    def _attention(self, number: int, hidden: Tensor, cos: Tensor, sin: Tensor, flat: FlatBatch) -> Tensor:
        layer, batch = self.layers[number], flat.of_layers(self.group_of_layer[number])
        key_cache, value_cache = self.key_caches[number], self.value_caches[number]
        heads = layer.qkv(self._norm(hidden, layer.attention_norm)).view(len(hidden), -1, self.head_dim)
        turning, value = heads[:, : -self.num_kv_heads], heads[:, -self.num_kv_heads :]
        if layer.head_norm is not None:
            turning = self._norm(turning, None) * layer.head_norm
        turned = rotated(turning, cos, sin)
        query, key = turned[:, : self.num_heads], turned[:, self.num_heads :]
        self.write_kv(key, value, key_cache, value_cache, batch.slot_mapping)
        attended = self.attention_of_layer[number](query, key_cache, value_cache, batch, self.head_dim**-0.5)
        return layer.output(attended.reshape(len(hidden), -1))

    def _mlp(self, layer: LlamaLayer, hidden: Tensor) -> Tensor:
        gate, up = layer.gate_up(self._norm(hidden, layer.mlp_norm)).chunk(2, dim=-1)
        return layer.down(silu(gate).mul_(up))

    def _norm(self, numbers: Tensor, weight: Tensor | None) -> Tensor:
        return rms_norm(numbers, numbers.shape[-1:], weight, self.norm_eps)

    def _rotary(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cosine and sine [T, 1, D] of the rotary angles at these positions."""
        angles = (positions[:, None] * self.inv_freq).repeat(1, 2)[:, None]
        dtype = self.embedding.dtype
        return (angles.cos() * self.rotary_scale).to(dtype), (angles.sin() * self.rotary_scale).to(dtype)


def rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (i, i + D / 2) of every head's numbers; heads [T, heads, D]."""
    first, second = heads.chunk(2, dim=-1)
    return torch.addcmul(heads * cos, torch.cat((-second, first), dim=-1), sin)


def joined(*layers: Any) -> Product:
    """Return one matrix product for linear layers with the same input; the layers' weights become views of its
    weights."""
    if isinstance(layers[0], SharedColumns):
        product: Product = layers[0].shared.product
        return product
    weight = torch.cat([layer.weight.detach() for layer in layers])
    for layer, rows in zip(layers, torch.split(weight, [len(layer.weight) for layer in layers]), strict=True):
        layer.weight.data = rows
    bias = None if layers[0].bias is None else torch.cat([layer.bias.detach() for layer in layers])
    return partial(linear, weight=weight, bias=bias)


def is_llama(model: Any) -> bool:
    """Return whether this file computes the same result as the model's modules."""
    config = model.config
    return (
        type(model).__name__ in ARCHITECTURES
        and config.hidden_act == "silu"
        and config.rope_parameters["rope_type"] in FIXED_ROPE_TYPES
    )


def paged_model(loaded: LoadedModel, steps: RunnerSteps, num_blocks: int, block_size: int) -> PagedModel:
    """Return a model with a KV cache: a `LlamaModel` for the Llama family, otherwise transformers' modules."""
    kind = LlamaModel if is_llama(loaded.model) else PagedModel
    return kind(loaded, steps.write_kv, steps.paged_attention, num_blocks, block_size, steps.windows)
