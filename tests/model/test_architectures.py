"""Every architecture either generates the same tokens as transformers, or is rejected with a reason."""

import random
from typing import Any

import pytest
import torch
from transformers import T5Config

from mini_vllm.config import EngineConfig
from mini_vllm.runner import contract
from mini_vllm.runner.loading import describe_model, load_model
from mini_vllm.runner.packed_linear import pack_linear_layers
from tests.model.generation import engine_for, engine_greedy, transformers_greedy
from tests.model.shapes import REFUSED, SERVED, VOCAB_SIZE, random_model

CHUNKS_AND_PREEMPTION = EngineConfig(
    long_prefill_token_threshold=7,
    max_num_batched_tokens=32,
    block_size=4,
    num_gpu_blocks=30,
    max_model_len=80,
    check_invariants=True,
)


@pytest.mark.parametrize("name", SERVED)
def test_served_models_generate_the_same_tokens_as_transformers(name: str) -> None:
    rng = random.Random(3)
    prompts = [[rng.randrange(1, VOCAB_SIZE) for _ in range(length)] for length in (1, 4, 17, 31, 52, 9)]
    lengths = [12, 20, 9, 16, 5, 24]
    model = random_model(SERVED[name])
    truth = transformers_greedy(model, prompts, lengths)
    assert len(set(map(tuple, truth))) == len(prompts)
    loaded = describe_model(model)
    pack_linear_layers(model)
    outputs = engine_greedy(engine_for(loaded, CHUNKS_AND_PREEMPTION), prompts, lengths)
    assert [output.outputs[0].token_ids for output in outputs] == truth


@pytest.mark.parametrize("name", REFUSED)
def test_other_models_are_refused_with_a_reason(name: str) -> None:
    config, reason = REFUSED[name]
    with pytest.raises(ValueError, match=reason):
        describe_model(random_model(config))


def test_an_encoder_decoder_is_refused_before_it_is_loaded(tmp_path: Any) -> None:
    T5Config().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="t5 has an encoder"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("layer", [0, 2])
def test_a_layer_that_adds_a_bias_is_detected(layer: int) -> None:
    """ALiBi in one layer only, which the attention function cannot see: a bias on its output."""
    model = random_model(SERVED["llama"])
    attention = model.model.layers[layer].self_attn
    plain = attention.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output, weights = plain(*args, **kwargs)
        return output + 0.01 * torch.arange(output.shape[1])[:, None], weights

    attention.forward = forward
    with pytest.raises(ValueError, match="computes different logits when several texts share a row"):
        contract.check_attention_contract(model, 512)


def test_a_model_that_counts_positions_itself_is_detected() -> None:
    model = random_model(SERVED["llama"])
    plain = model.model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **{**kwargs, "position_ids": None})

    model.model.forward = forward
    with pytest.raises(ValueError, match="counts positions itself"):
        contract.check_attention_contract(model, 512)


def test_the_check_does_not_change_the_model() -> None:
    model = random_model(SERVED["qwen2"])
    before = model.config._attn_implementation
    contract.check_attention_contract(model, 512)
    assert model.config._attn_implementation == before
