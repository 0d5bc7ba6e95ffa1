"""What a model's config says before any weight is read: whether the cache can hold it, and its longest text."""

from typing import Any

SLIDING = "sliding_attention"
KV_SETTINGS = {"head_dim", "num_key_value_heads", "sliding_window", "attention_chunk_size", "layer_types", "skip"}


def check_config(config: Any) -> None:
    """Raise `ValueError`, in one line, if the engine cannot serve a model with this config, whatever its weights."""
    require_decoder(config)
    require_equal_layers(config)
    require_known_attention(config)
    longest_exact_text(config)


def require_decoder(config: Any) -> None:
    """Raise `ValueError` if a model has an encoder, whose text its decoder would attend to."""
    if getattr(config, "is_encoder_decoder", False):
        raise ValueError(f"{config.model_type} has an encoder; the engine serves decoder-only models")


def require_equal_layers(config: Any) -> None:
    """Raise `ValueError` if a config gives some layers K and V of another shape, or none (Gemma 4)."""
    if not getattr(config, "is_heterogeneous", False):
        return
    has_gaps = any(layer.skip for layer in config.per_layer_config)
    differing = KV_SETTINGS & {*config.per_layer_attributes, *(["skip"] if has_gaps else [])}
    if differing:
        raise ValueError(
            f"{config.model_type} has layers that differ in {', '.join(sorted(differing))} (per_layer_config); the "
            f"cache gives K and V of all layers one shape"
        )


def require_known_attention(config: Any) -> None:
    """Raise `ValueError` naming the reason if a layer does not attend to its last tokens, with a window or without."""
    others = set(getattr(config, "layer_types", None) or ()) - {"full_attention", SLIDING}
    if others:
        raise ValueError(
            f"{config.model_type} has layers of type {', '.join(sorted(others))}; the cache supports full_attention "
            f"and {SLIDING}"
        )
    if getattr(config, "attn_logit_softcapping", None):
        raise ValueError(f"{config.model_type} caps its attention logits (attn_logit_softcapping)")
    if not getattr(config, "is_heterogeneous", False) and not hasattr(config, "num_attention_heads"):
        raise ValueError(f"{config.model_type} has no attention heads in its config")


def longest_exact_text(config: Any) -> tuple[int, str]:
    """Return the tokens of the longest text that is right whatever shares its forward passes, and where that ends.

    Two scalings of rotary embeddings take their angles from the largest position of a forward pass, so a text depends
    on others: `longrope` above its original length, `dynamic` above `max_position_embeddings`. Raises `ValueError`
    if the config names no length. (vLLM: `_get_and_verify_max_len`.)
    """
    named = getattr(config, "max_position_embeddings", None)
    if type(named) is not int or named < 2:
        raise ValueError(
            f"{config.model_type} must name its longest text in config.json: max_position_embeddings must be an "
            f"integer of at least 2, got {named!r}"
        )
    limits = [_limit_of(rope, named) for rope in rope_parameters(config)]
    return min(limits, default=(named, f"max_position_embeddings is {named}"))


def rope_parameters(config: Any) -> list[dict[str, Any]]:
    """Return the parameters of the rotary embeddings: one set for all layers, one per type of layer, or none."""
    given = getattr(config, "rope_parameters", None) or {}
    nested = [one for one in given.values() if isinstance(one, dict)]
    return nested or ([given] if given else [])


def _limit_of(rope: dict[str, Any], named: int) -> tuple[int, str]:
    kind, original = str(rope.get("rope_type", "default")), rope.get("original_max_position_embeddings") or named
    if kind == "longrope" and original < named and _depends_on_length(rope):
        return original, f"longrope turns all texts of a step by other angles once one exceeds {original} tokens"
    if "dynamic" in kind:
        return named, f"dynamic rope turns all texts of a step by other angles once one exceeds {named} tokens"
    factor = rope.get("factor")
    if kind in ("linear", "yarn") and factor and original * factor > named:
        return int(original * factor), f"{kind} rope scales {original} positions by {factor:g}"
    return named, f"max_position_embeddings is {named}"


def _depends_on_length(rope: dict[str, Any]) -> bool:
    return any(rope.get(f"short_{name}") != rope.get(f"long_{name}") for name in ("factor", "mscale"))
