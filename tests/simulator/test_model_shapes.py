"""The shapes count what transformers builds, for each kind of model in the table."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from course.simulator.model_shapes import MODEL_SHAPES, ModelShape

KINDS = {"embedded": "llama", "Llama": "llama", "Mistral": "mistral", "Qwen2.5": "qwen2", "Qwen3": "qwen3"}


@pytest.mark.parametrize("shape", MODEL_SHAPES, ids=lambda shape: shape.name)
def test_transformers_builds_as_many_parameters(shape: ModelShape) -> None:
    kind = next(kind for begin, kind in KINDS.items() if shape.name.startswith(begin))
    config = AutoConfig.for_model(
        kind,
        num_hidden_layers=shape.num_layers,
        hidden_size=shape.hidden_size,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.intermediate_size,
        vocab_size=shape.vocab_size,
        tie_word_embeddings=shape.tied_embeddings,
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    assert sum(parameter.numel() for parameter in model.parameters()) == shape.num_parameters
