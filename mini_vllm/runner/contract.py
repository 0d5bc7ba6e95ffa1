"""Check that all of a model's attention goes through the function that transformers lets us replace.

The paged cache puts several requests into one row, with each token's position in its own request, and replaces
only the attention function. A model that adds biases elsewhere, counts positions itself or never calls the function
would still run, but generate wrong text. So before it is used it computes two short texts in one row, through an
attention function that uses nothing but its arguments. The logits must equal those of each text alone.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

CONTRACT_NAME = "mini_vllm_contract"
TEXT_OF_TOKEN = (1, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1)  # interleaved: distances in the row differ from those in the text
UNSUPPORTED = ("softcap", "s_aux", "position_bias", "alibi")
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 2e-2}  # of two logits, by the largest


@dataclass(slots=True)
class AttentionShape:
    """What the attention function has seen: the layers in call order with their windows, and the size of K and V."""

    layers: list[int] = field(default_factory=list)
    windows: list[int | None] = field(default_factory=list)
    num_kv_heads: int = 0
    head_dim: int = 0


def refuse_unsupported_options(model_type: str, kwargs: dict[str, Any]) -> None:
    """Raise `ValueError` if the attention function is called with an option beyond a scale and a window."""
    for name in UNSUPPORTED:
        if kwargs.get(name) is not None:
            raise ValueError(f"{model_type} calls its attention with {name}, which the cache does not support")


def attend_in_one_row(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    contract: AttentionShape | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend causally within each text of the row; shapes as in `attention.attend`. Raises `ValueError`."""
    model_type = type(module).__name__
    if contract is None:
        raise ValueError(f"{model_type} does not pass on keyword arguments, so a batch cannot reach its attention")
    refuse_unsupported_options(model_type, kwargs)
    if key.shape != value.shape or not hasattr(module, "layer_idx"):
        raise ValueError(f"{model_type} has keys {tuple(key.shape)} and values {tuple(value.shape)} or no layer_idx")
    contract.layers.append(int(str(module.layer_idx)))
    contract.num_kv_heads, contract.head_dim = key.shape[1], key.shape[3]
    contract.windows.append(sliding_window)
    text = torch.tensor(TEXT_OF_TOKEN, device=query.device)
    mask = (text[:, None] == text).tril()
    if sliding_window is not None:
        positions = mask.sum(1)
        mask &= positions[:, None] - positions < sliding_window
    out = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True)
    return out.transpose(1, 2), None


@torch.inference_mode()
def check_attention_contract(model: Any) -> AttentionShape:
    """Return the shape of a model's attention; raise `ValueError` with the reason if it cannot be paged."""
    model_type = model.config.model_type
    if not model._can_set_attn_implementation():
        raise ValueError(f"{model_type} does not let its attention be replaced (no transformers AttentionInterface)")
    contract = AttentionShape()
    before = model.config._attn_implementation
    try:
        own, paged = _logits_alone_and_in_one_row(model, contract)
    finally:
        model.set_attn_implementation(before)
    if contract.layers != list(range(model.config.num_hidden_layers)):
        raise ValueError(
            f"{model_type} has {model.config.num_hidden_layers} layers, but its attention function was called in "
            f"layers {contract.layers}: it is not a plain stack of attention layers"
        )
    tolerance = TOLERANCE[own.dtype]
    worst = float((paged - own).abs().max() / own.abs().max())
    if not worst <= tolerance:
        raise ValueError(
            f"{model_type} computes different logits when several texts share a row (they differ by {worst:.1%}): it "
            f"counts positions itself, or attends to more than the arguments of its attention function"
        )
    return contract


def _logits_alone_and_in_one_row(model: Any, contract: AttentionShape) -> tuple[Tensor, Tensor]:
    """Return the logits [tokens, vocab] of the two texts computed separately, and of both in one row."""
    text_of_token = torch.tensor(TEXT_OF_TOKEN, device=model.device)
    row = torch.arange(1, 1 + len(TEXT_OF_TOKEN), device=model.device)
    own = torch.empty(len(row), model.config.vocab_size, dtype=model.dtype, device=model.device)
    positions = torch.empty_like(row)
    model.set_attn_implementation("eager")
    for text in (text_of_token == 0, text_of_token == 1):
        own[text] = model(input_ids=row[text][None], use_cache=False).logits[0]
        positions[text] = torch.arange(int(text.sum()), device=model.device)
    AttentionInterface.register(CONTRACT_NAME, attend_in_one_row)
    model.set_attn_implementation(CONTRACT_NAME)
    try:
        paged = model(
            input_ids=row[None],
            position_ids=positions[None],
            use_cache=False,
            logits_to_keep=torch.arange(len(row), device=model.device),
            contract=contract,
        )
    except TypeError as error:
        raise ValueError(f"{model.config.model_type} does not accept a batch by keyword: {error}") from error
    return own, paged.logits[0]
