"""Checks a model's config before weights are read: whether the cache supports it, and what its maximum length is."""

import logging
from typing import Any

logger = logging.getLogger(__name__)
SLIDING = "sliding_attention"


def check_config(config: Any) -> None:
    """Raise a one-line `ValueError` if the engine cannot serve a model with this config."""
    require_decoder(config)
    require_equal_layers(config)
    require_known_attention(config)
    longest_exact_text(config)


def require_decoder(config: Any) -> None:
    """Raise `ValueError` if a model has an encoder that its decoder attends to."""
    if getattr(config, "is_encoder_decoder", False):
        raise ValueError(f"{config.model_type} has an encoder; the engine serves decoder-only models")


def require_equal_layers(config: Any) -> None:
    """Raise `ValueError` if `per_layer_config` makes layers differ from each other, as Gemma 4 does with its heads."""
    differing = set(getattr(config, "per_layer_attributes", None) or ())
    if getattr(config, "is_heterogeneous", False) and any(layer.skip for layer in config.per_layer_config):
        differing.add("skip")
    if differing:
        raise ValueError(
            f"{config.model_type} has layers that differ in {', '.join(sorted(differing))} (per_layer_config), but the "
            "engine needs identical layers"
        )


def require_known_attention(config: Any) -> None:
    """Raise `ValueError` with the reason if a layer uses neither full nor sliding-window attention."""
    others = set(getattr(config, "layer_types", None) or ()) - {"full_attention", SLIDING}
    if others:
        raise ValueError(
            f"{config.model_type} has layers of type {', '.join(sorted(others))}; the cache supports full_attention "
            f"and {SLIDING}"
        )
    if getattr(config, "attn_logit_softcapping", None):
        raise ValueError(
            f"{config.model_type} caps its attention logits (attn_logit_softcapping), which the engine does not support"
        )
    if not hasattr(config, "num_attention_heads"):
        raise ValueError(f"the config of {config.model_type} has no attention heads")


def longest_exact_text(config: Any) -> tuple[int, str]:
    """Return the length in tokens up to which a text is unaffected by other texts in its step, and why.

    Two scalings of rotary embeddings derive their angles from the largest position in a forward pass. Above a certain
    length, a text therefore depends on the other texts in its step: the original length with `longrope`, and
    `max_position_embeddings` with `dynamic`. Raises `ValueError` if the config has no maximum length. (vLLM:
    `_get_and_verify_max_len`.)
    """
    named = getattr(config, "max_position_embeddings", None)
    if type(named) is not int or named < 2:
        raise ValueError(
            f"{config.model_type} must state its maximum length in config.json: max_position_embeddings must be an "
            f"integer of at least 2, got {named!r}"
        )
    limits = [_limit_of(rope, named) for rope in rope_parameters(config)]
    return min(limits, default=(named, f"max_position_embeddings is {named}"))


def served_length(config: Any, asked: int | None = None) -> int:
    """Return the maximum length of a text in tokens: `asked` if given, otherwise `longest_exact_text`.

    Logs a warning if the result is below the config's maximum. Raises `ValueError` if `asked` exceeds
    `longest_exact_text`.
    """
    longest, why = longest_exact_text(config)
    if asked is not None and asked > longest:
        raise ValueError(f"max_model_len must be at most {longest} for this model ({why}), got {asked}")
    if asked is None and longest < config.max_position_embeddings:
        logger.warning("max_model_len is %d and not %d: %s", longest, config.max_position_embeddings, why)
    return asked or longest


def rope_parameters(config: Any) -> list[dict[str, Any]]:
    """Return the rotary embeddings' parameters: one set for all layers, one per layer type, or an empty list."""
    given = getattr(config, "rope_parameters", None) or {}
    nested = [one for one in given.values() if isinstance(one, dict)]
    return nested or ([given] if given else [])


def _limit_of(rope: dict[str, Any], named: int) -> tuple[int, str]:
    kind, original = str(rope.get("rope_type", "default")), rope.get("original_max_position_embeddings") or named
    if kind == "longrope" and original < named and _depends_on_length(rope):
        return original, f"longrope changes the angles of all texts in a step as soon as one exceeds {original} tokens"
    if "dynamic" in kind:
        return named, f"dynamic rope changes the angles of all texts in a step as soon as one exceeds {named} tokens"
    factor = rope.get("factor")
    if kind in ("linear", "yarn") and factor and original <= named < original * factor:
        return int(original * factor), f"{kind} rope scales {original} positions by {factor:g}"
    return named, f"max_position_embeddings is {named}"


def _depends_on_length(rope: dict[str, Any]) -> bool:
    return any(rope.get(f"short_{name}") != rope.get(f"long_{name}") for name in ("factor", "mscale"))
