"""What a model's config says before any weight is read: whether the cache can hold it, and its longest text."""

import logging
from typing import Any

logger = logging.getLogger(__name__)
SLIDING = "sliding_attention"


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
    """Raise `ValueError` if layers differ by `per_layer_config`, as the heads of Gemma 4 do."""
    differing = set(getattr(config, "per_layer_attributes", None) or ())
    if getattr(config, "is_heterogeneous", False) and any(layer.skip for layer in config.per_layer_config):
        differing.add("skip")
    if differing:
        raise ValueError(
            f"{config.model_type} has layers that differ in {', '.join(sorted(differing))} (per_layer_config); the "
            f"engine serves models whose layers are all alike"
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
    if not hasattr(config, "num_attention_heads"):
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


def served_length(config: Any, asked: int | None = None) -> int:
    """Return how many tokens a text may have: `asked`, else all that are exact.

    Logs a warning if that is less than the config names. Raises `ValueError` if `asked` is more.
    """
    longest, why = longest_exact_text(config)
    if asked is not None and asked > longest:
        raise ValueError(f"max_model_len must be at most {longest} for this model ({why}), got {asked}")
    if asked is None and longest < config.max_position_embeddings:
        logger.warning("max_model_len is %d and not %d: %s", longest, config.max_position_embeddings, why)
    return asked or longest


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
    if kind in ("linear", "yarn") and factor and original <= named < original * factor:
        return int(original * factor), f"{kind} rope scales {original} positions by {factor:g}"
    return named, f"max_position_embeddings is {named}"


def _depends_on_length(rope: dict[str, Any]) -> bool:
    return any(rope.get(f"short_{name}") != rope.get(f"long_{name}") for name in ("factor", "mscale"))
