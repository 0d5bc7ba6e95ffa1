"""Tiny models with random weights, one per architecture, saved as a user would have them on disk."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaForCausalLM, PreTrainedConfig, Qwen3ForCausalLM

from mini_vllm.runner.loading import LoadedModel, describe_model

VOCAB_SIZE = 97
NO_ENDS: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
SMALL: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    **NO_ENDS,
}
GPT2_SMALL: dict[str, Any] = {"vocab_size": VOCAB_SIZE, "n_embd": 48, "n_layer": 3, "n_head": 6, **NO_ENDS}

config = AutoConfig.for_model
SERVED: dict[str, PreTrainedConfig] = {
    "llama": config("llama", **SMALL, head_dim=8, tie_word_embeddings=True),
    "qwen2": config("qwen2", **SMALL),
    "qwen3": config("qwen3", **SMALL, head_dim=16),
    "mistral": config("mistral", **SMALL, sliding_window=None),
    "phi3": config("phi3", **SMALL),
    "olmo2": config("olmo2", **SMALL),
    "smollm3": config("smollm3", **SMALL),
    "granite": config("granite", **SMALL, attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=2.0),
    "gpt2": config("gpt2", **GPT2_SMALL, n_positions=512),
    "hunyuan_v1_moe": config("hunyuan_v1_moe", **SMALL, head_dim=8, num_experts=4, moe_topk=2),
    "gpt_neox": config("gpt_neox", **{name: value for name, value in SMALL.items() if name != "num_key_value_heads"}),
}
ONE_TOKEN = "a window of one token"
WINDOWED: dict[str, PreTrainedConfig] = {
    "mistral": config("mistral", **SMALL, sliding_window=11),
    "gemma3_text": config(
        "gemma3_text",
        **SMALL | {"num_hidden_layers": 6},
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=9,
    ),
    "qwen2": config(
        "qwen2",
        **SMALL,
        use_sliding_window=True,
        sliding_window=6,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
    ),
    "cohere2": config("cohere2", **SMALL | {"num_hidden_layers": 4}, sliding_window=13),
    "a window of two tokens": config("mistral", **SMALL, sliding_window=2),
    ONE_TOKEN: config("mistral", **SMALL, sliding_window=1),
}


def long_rope(short: float, long: float, **other: float) -> dict[str, Any]:
    """Rotary angles that change for all texts in a forward pass once one of them exceeds 32 tokens."""
    factors = {"short_factor": [short] * 4, "long_factor": [long] * 4}
    return {"rope_type": "longrope", "original_max_position_embeddings": 32, "factor": 16.0, **factors, **other}


LONG_ROPE: dict[str, PreTrainedConfig] = {
    "phi3": config("phi3", **SMALL, original_max_position_embeddings=32, rope_scaling=long_rope(1.0, 4.0)),
    "llama": config("llama", **SMALL, rope_scaling=long_rope(1.0, 4.0)),
    "phimoe": config(
        "phimoe", **SMALL, num_local_experts=4, rope_scaling=long_rope(1.0, 1.0, short_mscale=1.0, long_mscale=1.5)
    ),
    "gemma3_text": config(
        "gemma3_text",
        **SMALL | {"num_hidden_layers": 6},
        head_dim=8,
        sliding_window=9,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_theta": 10000.0, **long_rope(1.0, 4.0)},
        },
    ),
}
REFUSED: dict[str, tuple[PreTrainedConfig, str]] = {
    "a third kind of layer": (
        config("qwen2", **SMALL, layer_types=["full_attention", "chunked_attention", "full_attention"]),
        "qwen2 has layers of type chunked_attention",
    ),
    "soft caps": (
        config("gemma2", **SMALL, head_dim=8, layer_types=["full_attention"] * 3, sliding_window=None),
        "gemma2 caps its attention logits",
    ),
    "ALiBi": (config("bloom", vocab_size=VOCAB_SIZE, hidden_size=48, n_layer=3, n_head=6), "bloom does not allow"),
    "ALiBi, another": (config("mpt", vocab_size=VOCAB_SIZE, d_model=48, n_layers=3, n_heads=6), "mpt does not allow"),
    "no batch": (config("stablelm", **SMALL), "StableLmAttention does not pass on keyword arguments"),
    "no attention": (config("mamba", vocab_size=VOCAB_SIZE, hidden_size=48, num_hidden_layers=3), "mamba"),
    "both directions": (config("bert", **SMALL, is_decoder=False), "bert computes different logits"),
}


def random_model(config: PreTrainedConfig) -> Any:
    """A model with random weights, large enough for attention and positions to influence tokens."""
    torch.manual_seed(7)
    model: Any = AutoModelForCausalLM.from_config(deepcopy(config), dtype=torch.float32)  # type: ignore[no-untyped-call]
    model.eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2 and "embed" not in name:
                weight *= 3
    return model


def random_llama() -> LoadedModel:
    torch.manual_seed(7)
    return described(LlamaForCausalLM, "llama")


def random_qwen3() -> LoadedModel:
    """A Qwen3: norms on queries and keys, and heads whose sizes do not add up to the hidden size."""
    torch.manual_seed(8)
    return described(Qwen3ForCausalLM, "qwen3")


def described(architecture: Any, name: str) -> LoadedModel:
    return describe_model(architecture(deepcopy(SERVED[name])).eval())


def save(loaded: LoadedModel, directory: Path) -> Path:
    loaded.model.save_pretrained(directory)
    return directory
