"""The settings of a plain Llama, limited to the values that `plain_llama.py` knows how to load."""

from collections.abc import Callable
from typing import Any

from mini_vllm.runner.model_files import DTYPES

CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
SIZES = (
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "vocab_size",
)


def _one_of(*values: object) -> Callable[[object], bool]:
    return lambda value: any(type(value) is type(one) and value == one for one in values)


def _is_size(value: object) -> bool:
    return type(value) is int and value >= 1


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_token(value: object) -> bool:
    return value is None or (type(value) is int and value >= 0)


def _anything(value: object) -> bool:
    return True


def _is_rope(value: Any) -> bool:
    return value is None or (set(value) == {"rope_theta", "rope_type"} and _is_default_rope(**value))


def _is_default_rope(rope_theta: object, rope_type: object) -> bool:
    return rope_type == "default" and _is_positive(rope_theta)


SETTINGS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(SIZES, _is_size),
    "architectures": lambda value: len(value) == 1 and value[0] in CLASSES.values(),
    "attention_bias": _one_of(False),
    "attention_dropout": _one_of(0, 0.0),
    "bos_token_id": _is_token,
    "dtype": _one_of(*DTYPES.values()),
    "eos_token_id": _anything,  # `find_end_tokens` rejects invalid values
    "head_dim": _is_size,
    "hidden_act": _one_of("silu"),
    "initializer_range": _is_positive,
    "layer_types": lambda value: set(value) == {"full_attention"},
    "max_window_layers": _is_size,
    "mlp_bias": _one_of(False),
    "model_type": _one_of(*CLASSES),
    "pad_token_id": _is_token,
    "pretraining_tp": _one_of(1),
    "rms_norm_eps": _is_positive,
    "rope_parameters": _is_rope,
    "rope_scaling": _one_of(None),
    "rope_theta": _is_positive,
    "sliding_window": lambda value: value is None or _is_size(value),
    "tie_word_embeddings": _one_of(False, True),
    "torch_dtype": _one_of(*DTYPES.values()),
    "transformers_version": _anything,
    "use_cache": _one_of(False, True),
    "use_sliding_window": _one_of(False),
    "vocab_size": _is_size,
}
GENERATION_SETTINGS: dict[str, Callable[[Any], bool]] = {
    "_from_model_config": _one_of(False, True),
    "bos_token_id": _is_token,
    "do_sample": _one_of(False, True),
    "eos_token_id": _anything,
    "output_attentions": _one_of(False),
    "output_hidden_states": _one_of(False),
    "pad_token_id": _is_token,
    "repetition_penalty": lambda value: _is_number(value) and 0 < value <= 2,
    "temperature": _is_positive,
    "top_k": _is_size,
    "top_p": lambda value: _is_number(value) and 0 < value <= 1,
    "transformers_version": _anything,
    "use_cache": _one_of(False, True),
}


def is_plain(settings: dict[str, Any], known: dict[str, Callable[[Any], bool]]) -> bool:
    """Return whether this module knows every setting and the effect of its value."""
    return all(name in known and known[name](value) for name, value in settings.items())
