"""Replaces a transformers model's attention function with phase 6's, which uses the paged KV cache.

Projections, rotary embeddings, norms and MLP do not change. The step's batch reaches the attention function through the
model's keyword arguments.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from mini_vllm.runner.contract import refuse_unsupported_options
from mini_vllm.runner.steps import FlatBatch, PagedAttention, WriteKV

ATTENTION_NAME = "mini_vllm_paged"


@dataclass(slots=True)
class PagedContext:
    """The per-layer arguments of the attention function in one step.

    `key_caches` and `value_caches` are tensors [blocks, block_size, kv_heads, head_dim].
    """

    batches: list[FlatBatch]
    key_caches: list[Tensor]
    value_caches: list[Tensor]
    write_kv: WriteKV
    attentions: list[PagedAttention]


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    paged: PagedContext | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Write the new K and V of all requests, then attend over the cache.

    The shapes are query [1, heads, T, head_dim], key and value [1, kv_heads, T, head_dim], with the rotary embedding
    already applied. Returns [1, T, heads, head_dim].
    """
    if paged is None:
        raise ValueError(f"attention {ATTENTION_NAME!r} needs paged=PagedContext(...) in the forward call")
    refuse_unsupported_options(type(module).__name__, kwargs)
    flat_query, flat_key, flat_value = (x[0].transpose(0, 1) for x in (query, key, value))
    layer: int = module.layer_idx  # type: ignore[assignment]
    batch, key_cache, value_cache = paged.batches[layer], paged.key_caches[layer], paged.value_caches[layer]
    paged.write_kv(flat_key, flat_value, key_cache, value_cache, batch.slot_mapping)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return paged.attentions[layer](flat_query, key_cache, value_cache, batch, scale)[None], None


def use_paged_attention(model: Any) -> None:
    """Make a transformers model call `attend` in every layer."""
    AttentionInterface.register(ATTENTION_NAME, attend)
    model.set_attn_implementation(ATTENTION_NAME)
