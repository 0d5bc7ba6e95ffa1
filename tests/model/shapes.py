"""Tiny models with random weights, one per architecture, saved as a user would have them on disk."""

from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from mini_vllm.model.loading import LoadedModel, describe_model

VOCAB_SIZE = 97
SMALL: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}


def random_llama() -> LoadedModel:
    """A Llama: grouped-query attention, tied embeddings."""
    torch.manual_seed(7)
    return describe_model(LlamaForCausalLM(LlamaConfig(**SMALL, tie_word_embeddings=True)).eval())


def random_qwen3() -> LoadedModel:
    """A Qwen3: norms on queries and keys, heads whose sizes do not add up to the hidden size."""
    torch.manual_seed(8)
    return describe_model(Qwen3ForCausalLM(Qwen3Config(**{**SMALL, "head_dim": 16})).eval())


def save(loaded: LoadedModel, directory: Path) -> Path:
    """Write a model with `save_pretrained` and return its directory."""
    loaded.model.save_pretrained(directory)
    return directory
