"""Reads a model's generation_config.json: applies the repetition penalty and warns about other settings.

transformers' `generate` applies all settings; vLLM applies the repetition penalty and the sampling settings.
"""

import logging
from typing import Any

logger = logging.getLogger(__name__)

# Settings that change greedy texts unless they are unset or have the values given here.
GREEDY_SETTINGS: dict[str, float | None] = {
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "num_beams": 1,
    "num_beam_groups": 1,
    "diversity_penalty": 0,
    "guidance_scale": 1,
    "penalty_alpha": 0,
    "bad_words_ids": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "sequence_bias": None,
    "exponential_decay_length_penalty": None,
    "watermarking_config": None,
    "constraints": None,
    "force_words_ids": None,
    "dola_layers": None,
    "stop_strings": None,
    "token_healing": 0,
}
DRAWING_SETTINGS: dict[str, float | None] = {
    "temperature": 1,
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "top_h": None,
    "typical_p": 1,
    "epsilon_cutoff": 0,
    "eta_cutoff": 0,
}
LONGEST_VALUE = 40  # characters


def own_repetition_penalty(generation_config: Any) -> float:
    """Return the default repetition penalty for requests. Raises `ValueError` unless it is above 0 and at most 2."""
    value = getattr(generation_config, "repetition_penalty", None)
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 2:
        raise ValueError(
            f"repetition_penalty in generation_config.json must be greater than 0 and at most 2, got {value!r}"
        )
    return float(value)


def ignored_settings(generation_config: Any) -> list[str]:
    """List the settings that are not applied, in one line for greedy texts and one for sampled texts."""
    told = []
    if changed := _changed(generation_config, GREEDY_SETTINGS):
        told.append(f"generation_config.json: not applied, so texts differ from transformers' generate: {changed}")
    if getattr(generation_config, "do_sample", False) and (changed := _changed(generation_config, DRAWING_SETTINGS)):
        told.append(f"generation_config.json: not applied unless a request sets it: {changed}")
    return told


def warn_of_settings(generation_config: Any) -> None:
    """Log the settings that are not applied."""
    for line in ignored_settings(generation_config):
        logger.warning("%s", line)


def _changed(generation_config: Any, neutral: dict[str, float | None]) -> str:
    given = {name: getattr(generation_config, name, None) for name in neutral}
    changed = {name: value for name, value in given.items() if value is not None and value != neutral[name]}
    return ", ".join(f"{name}={_short(value)}" for name, value in changed.items())


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "..."
