"""Tests what a config determines: how long texts may be, and which models cannot be served."""

import re
from typing import Any

import pytest
from transformers import PreTrainedConfig

from mini_vllm.runner.model_limits import check_config, longest_exact_text
from tests.model.shapes import LONG_ROPE, SMALL, config, long_rope

SIX_LAYERS = SMALL | {"num_hidden_layers": 6, "head_dim": 8}


def rope(model_type: str, **parameters: Any) -> PreTrainedConfig:
    return config(model_type, **SMALL, rope_scaling=parameters)


LONGEST: dict[str, tuple[PreTrainedConfig, int, str]] = {
    "plain": (config("llama", **SMALL), 512, "max_position_embeddings is 512"),
    "learned positions": (config("gpt2", n_positions=64), 64, "max_position_embeddings is 64"),
    "linear, old": (rope("llama", type="linear", factor=4.0), 2048, "linear rope scales 512 positions by 4"),
    "yarn, old": (rope("qwen2", type="yarn", factor=2.5), 1280, "yarn rope scales 512 positions by 2.5"),
    "yarn, scaled": (rope("qwen2", rope_type="yarn", factor=4.0, original_max_position_embeddings=128), 512, "is 512"),
    "dynamic": (rope("llama", type="dynamic", factor=4.0), 512, "dynamic rope .* exceeds 512"),
    "longrope": (LONG_ROPE["phi3"], 32, "longrope .* exceeds 32"),
    "longrope that changes nothing": (config("llama", **SMALL, rope_scaling=long_rope(1.5, 1.5)), 512, "is 512"),
    "scaled in some layers alone": (
        config("gemma3_text", **SIX_LAYERS, rope_scaling={"rope_type": "linear", "factor": 8.0}),
        512,
        "is 512",
    ),
    "longrope in some layers alone": (LONG_ROPE["gemma3_text"], 32, "longrope .* exceeds 32"),
}
REFUSED_CONFIGS: dict[str, tuple[PreTrainedConfig, str]] = {
    "no length": (config("bloom"), "bloom must state its maximum length .* got None"),
    "an encoder": (config("t5"), "t5 has an encoder"),
    "larger heads in some layers": (
        config("gemma4_text", **SIX_LAYERS, global_head_dim=16),
        "gemma4_text has layers that differ in head_dim",
    ),
    "another number of K/V heads": (
        config("llama", **SMALL, per_layer_config={1: {"num_key_value_heads": 3}}),
        "differ in num_key_value_heads",
    ),
    "a layer without attention": (config("llama", **SMALL, per_layer_config={1: {"skip": ["attention"]}}), "skip"),
}


@pytest.mark.parametrize("name", LONGEST)
def test_the_longest_text_comes_with_its_reason(name: str) -> None:
    given, longest, reason = LONGEST[name]
    check_config(given)
    limit, why = longest_exact_text(given)
    assert limit == longest
    assert re.search(reason, why), why


@pytest.mark.parametrize("name", REFUSED_CONFIGS)
def test_a_config_is_refused_in_one_line(name: str) -> None:
    given, reason = REFUSED_CONFIGS[name]
    with pytest.raises(ValueError, match=reason) as refused:
        check_config(given)
    assert "\n" not in str(refused.value)
