"""Checks that a model uses transformers' replaceable attention function, and that texts in one row stay independent.

The paged cache puts several requests into one row, with each token's position in its request, and replaces only the
attention function. A model that adds biases elsewhere, counts positions itself or never calls the attention function
would still run, but would generate wrong text. This check therefore computes two short texts in one row, with an
attention function that uses only its arguments. The logits must be the same as when each text is computed alone. The
check runs twice: with both texts at position 0, and with the second ending at the last position, because some models
derive angles or tables from the largest position.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import Cache

CONTRACT_NAME = "mini_vllm_contract"
# the sequences are interleaved, so distances in the row differ from distances within a sequence
TEXT_OF_TOKEN = (1, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1)
UNSUPPORTED = ("softcap", "s_aux", "position_bias", "alibi")
# maximum difference, relative to the largest logit
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 2e-2}


@dataclass(slots=True)
class AttentionShape:
    """Records the attention function's calls: the layers in call order, their windows, and the [heads, size] of K and
    V.

    `text_of_token` [T] is an input: the number of the text that contains each token.
    """

    text_of_token: Tensor
    layers: list[int] = field(default_factory=list)
    windows: list[int | None] = field(default_factory=list)
    kv_shapes: list[tuple[int, int]] = field(default_factory=list)


class PretendedPast(Cache):
    """An empty cache that reports a length of `num_tokens`, from which a model derives the next token's position."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__(layers=[])
        self.num_tokens = num_tokens

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.num_tokens

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        return key_states, value_states


def refuse_unsupported_options(model_type: str, kwargs: dict[str, Any]) -> None:
    """Raise `ValueError` if the attention function is called with an option that the cache does not support."""
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
    """Attend causally within each text of the row; shapes as in `attend`.

    Raises `ValueError` for an unsuitable model.
    """
    model_type = type(module).__name__
    if contract is None:
        raise ValueError(f"{model_type} does not pass on keyword arguments, so a batch cannot reach its attention")
    refuse_unsupported_options(model_type, kwargs)
    if key.shape != value.shape or not hasattr(module, "layer_idx"):
        raise ValueError(
            f"{model_type} has keys of shape {tuple(key.shape)} and values of shape {tuple(value.shape)}, which "
            "must match, or its attention has no layer_idx"
        )
    contract.layers.append(int(str(module.layer_idx)))
    contract.kv_shapes.append((key.shape[1], key.shape[3]))
    contract.windows.append(sliding_window)
    mask = (contract.text_of_token[:, None] == contract.text_of_token).tril()
    if sliding_window is not None:
        positions = mask.sum(1)
        mask &= positions[:, None] - positions < sliding_window
    out = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True)
    return out.transpose(1, 2), None


def require_replaceable_attention(model: Any) -> None:
    """Raise `ValueError` if a model's attention function cannot be replaced."""
    if not model._can_set_attn_implementation():
        raise ValueError(
            f"{model.config.model_type} does not allow its attention to be replaced (it lacks transformers' "
            "AttentionInterface)"
        )


@torch.inference_mode()
def check_attention_contract(model: Any, longest: int) -> AttentionShape:
    """Return the shape of a model's attention. Raises `ValueError` with the reason if it cannot be paged.

    `longest` is the model's maximum length in tokens. On the `meta` device there are no logits to compare.
    """
    before = model.config._attn_implementation
    try:
        return _check(model, longest)
    except (IndexError, RuntimeError) as error:
        if "meta tensors" in str(error):
            raise  # the model's code needs actual numbers, so the model itself is not to blame
        raise ValueError(f"{model.config.model_type} cannot compute a prompt of {longest} tokens: {error}") from error
    finally:
        model.set_attn_implementation(before)


def _check(model: Any, longest: int) -> AttentionShape:
    model_type = model.config.model_type
    text = torch.tensor(TEXT_OF_TOKEN[:longest], device=model.device)
    tokens = torch.arange(1, 1 + len(text), device=model.device) % model.config.vocab_size
    short, other = text == 0, text == 1
    positions = (text[:, None] == text).tril().sum(1) - 1
    own, has_numbers = [], model.device.type != "meta"
    if has_numbers:
        model.set_attn_implementation("eager")
        own = [model(input_ids=tokens[which][None], use_cache=False).logits[0] for which in (short, other)]
        if not all(logits.isfinite().all() for logits in own):
            raise ValueError(
                f"{model_type} computes NaN or infinite logits from finite weights: check the numbers in config.json, "
                "such as rope_parameters and the norms' eps, or choose a different dtype"
            )
    AttentionInterface.register(CONTRACT_NAME, attend_in_one_row)
    model.set_attn_implementation(CONTRACT_NAME)
    contract = AttentionShape(text)
    row = _row(model, tokens, positions, contract)
    _require_plain_stack(model_type, model.config.num_hidden_layers, contract)
    if not has_numbers:
        return contract
    differ = "computes different logits when several texts share a row (they differ by {:.1%}): it counts positions "
    differ += "itself, or attends to more than the arguments of its attention function"
    for which, alone in zip((short, other), own, strict=True):
        _require_equal(row[which], alone, f"{model_type} {differ}")
    start = longest - int(other.sum())
    late = model(
        input_ids=tokens[other][None],
        past_key_values=PretendedPast(start),
        use_cache=True,
        contract=AttentionShape(text[other]),
    ).logits[0]
    row = _row(model, tokens, positions + start * other, AttentionShape(text))
    differ = f"{model_type} computes different logits when one of the texts of a row ends at position {longest - 1} "
    differ += "(they differ by {:.1%}): it takes angles or a scale from the largest position, or counts by itself"
    _require_equal(row[short], own[0], differ)
    _require_equal(row[other], late, differ)
    return contract


def _row(model: Any, tokens: Tensor, positions: Tensor, contract: AttentionShape) -> Tensor:
    """Return the logits [T, vocab] of all texts in one row."""
    try:
        output = model(
            input_ids=tokens[None],
            position_ids=positions[None],
            use_cache=False,
            logits_to_keep=torch.arange(len(tokens), device=model.device),
            contract=contract,
        )
    except TypeError as error:
        raise ValueError(f"{model.config.model_type} does not accept a batch as a keyword argument: {error}") from error
    logits: Tensor = output.logits[0]
    return logits


def _require_plain_stack(model_type: str, num_layers: int, contract: AttentionShape) -> None:
    if contract.layers != list(range(num_layers)):
        raise ValueError(
            f"{model_type} has {num_layers} layers, but its attention function was called in layers "
            f"{contract.layers}: the model must be a plain stack of attention layers"
        )
    shapes = contract.kv_shapes
    if len(set(shapes)) > 1:
        other = next(layer for layer, shape in enumerate(shapes) if shape != shapes[0])
        raise ValueError(
            f"{model_type} has {shapes[0][0]} K and V heads of size {shapes[0][1]} in layer 0, but {shapes[other][0]} "
            f"of size {shapes[other][1]} in layer {other}; all layers must have the same shape"
        )


def _require_equal(logits: Tensor, alone: Tensor, message: str) -> None:
    worst = float((logits - alone).abs().max() / alone.abs().max())
    if not worst <= TOLERANCE[alone.dtype]:
        raise ValueError(message.format(worst))
