"""The written-out forward pass of the Llama family computes what transformers' modules compute."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.config import EngineConfig
from mini_vllm.runner.llama import LlamaModel, paged_model
from mini_vllm.runner.loading import LoadedModel, describe_model, load_model
from mini_vllm.runner.packed_linear import pack_linear_layers
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.steps import FlatBatch
from tests.model.generation import engine_for, engine_greedy, transformers_greedy
from tests.model.shapes import SERVED, random_model

STEPS = runner_steps_for("solution")
BLOCK_SIZE = 4
SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-3,
}
LLAMA3 = {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
FAMILY: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama, biases": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True, head_dim=16),
    "llama, llama3 rope": LlamaConfig(**SIZES, rope_parameters={"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}),
    "llama, linear rope": LlamaConfig(**SIZES, rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 2}),
    "llama, yarn": LlamaConfig(**SIZES, rope_parameters=YARN),
    "mistral": MistralConfig(**SIZES, sliding_window=None, head_dim=12),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(**SIZES, head_dim=20, tie_word_embeddings=False),
}


def loaded_family(name: str, dtype: torch.dtype = torch.float32) -> LoadedModel:
    """Return a random model in which every weight matters: no bias is 0, no norm is 1."""
    torch.manual_seed(11)
    model: Any = AutoModelForCausalLM.from_config(deepcopy(FAMILY[name]), dtype=dtype)  # type: ignore[no-untyped-call]
    model.eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.4 if weight.dim() == 1 else 0.15).add_(1.0 if weight.dim() == 1 else 0.0)
    return describe_model(model)


def step(queries: list[int], seq_lens: list[int]) -> FlatBatch:
    """Return a step in which request i computes the last `queries[i]` of `seq_lens[i]` tokens, in separate blocks."""
    table = torch.arange(1, 1 + 10 * len(queries)).view(len(queries), 10).flip(1)
    positions = [torch.arange(end - count, end) for count, end in zip(queries, seq_lens, strict=True)]
    slots = [
        blocks[spot // BLOCK_SIZE] * BLOCK_SIZE + spot % BLOCK_SIZE
        for blocks, spot in zip(table, positions, strict=True)
    ]
    ends = torch.tensor(queries).cumsum(0)
    return FlatBatch(
        input_ids=torch.arange(int(ends[-1])) * 31 % 97,
        positions=torch.cat(positions),
        slot_mapping=torch.cat(slots),
        query_start_loc=torch.cat([torch.zeros(1, dtype=torch.int64), ends]),
        seq_lens=torch.tensor(seq_lens),
        block_tables=table,
        logits_indices=ends - 1,
        query_lens=queries,
        seq_lens_cpu=seq_lens,
        block_size=BLOCK_SIZE,
    )


# Prompts, then a chunk among decodes, then only decodes, and finally a single row, which takes a different
# matrix-product path.
RUN = [([9, 5, 1], [9, 5, 1]), ([1, 8, 1], [10, 13, 2]), ([1, 1, 1], [11, 14, 3]), ([1], [12])]


def logits_of(model: PagedModel) -> list[torch.Tensor]:
    return [model.forward(step(*lengths)).float() for lengths in RUN]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("name", FAMILY)
def test_logits_equal_those_of_the_modules(name: str, packed: bool) -> None:
    loaded = loaded_family(name)
    if packed:
        pack_linear_layers(loaded.model)
    own = paged_model(loaded, STEPS, 31, BLOCK_SIZE)
    assert type(own) is LlamaModel
    modules = PagedModel(loaded, STEPS.write_kv, STEPS.paged_attention, 31, BLOCK_SIZE)
    for found, expected in zip(logits_of(own), logits_of(modules), strict=True):
        assert expected.std() > 0.1
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(own.key_caches + own.value_caches, modules.key_caches + modules.value_caches, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_bfloat16_is_as_near_to_float32_as_the_modules_are() -> None:
    exact = logits_of(paged_model(loaded_family("qwen3"), STEPS, 31, BLOCK_SIZE))
    loaded = loaded_family("qwen3", torch.bfloat16)
    own = logits_of(paged_model(loaded, STEPS, 31, BLOCK_SIZE))
    modules = logits_of(PagedModel(loaded, STEPS.write_kv, STEPS.paged_attention, 31, BLOCK_SIZE))
    errors = [
        sum(float((found - right).square().sum()) for found, right in zip(logits, exact, strict=True)) ** 0.5
        for logits in (own, modules)
    ]
    assert errors[0] < 1.5 * errors[1]


@pytest.mark.parametrize("name", FAMILY)
def test_greedy_texts_equal_generate(name: str) -> None:
    loaded = loaded_family(name)
    prompts = [[5, 17, 80, 3, 44], [9] * 21, [1, 2]]
    expected = transformers_greedy(loaded.model, prompts, [12, 9, 15])
    engine = engine_for(loaded, EngineConfig(num_gpu_blocks=40, block_size=BLOCK_SIZE, max_num_batched_tokens=16))
    assert [output.outputs[0].token_ids for output in engine_greedy(engine, prompts, [12, 9, 15])] == expected


def test_the_same_weights_are_held_once() -> None:
    loaded = loaded_family("qwen2")
    before = {name: weight.clone() for name, weight in loaded.model.named_parameters()}
    own = paged_model(loaded, STEPS, 2, BLOCK_SIZE)
    attention = loaded.model.model.layers[1].self_attn
    shared = attention.q_proj.weight.untyped_storage().data_ptr()
    assert attention.v_proj.weight.untyped_storage().data_ptr() == shared
    assert own.layers[1].qkv.keywords["weight"].untyped_storage().data_ptr() == shared  # type: ignore[attr-defined]
    for name, weight in loaded.model.named_parameters():
        assert torch.equal(weight, before[name])


def test_the_embedded_model_is_computed_here_and_others_by_their_modules() -> None:
    assert type(paged_model(load_model()[0], STEPS, 2, BLOCK_SIZE)) is LlamaModel
    changing = LlamaConfig(**SIZES, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0})
    relu = LlamaConfig(**SIZES, hidden_act="relu")
    for config in (changing, relu):
        assert type(paged_model(describe_model(random_model(config)), STEPS, 2, BLOCK_SIZE)) is PagedModel
    assert type(paged_model(describe_model(random_model(SERVED["gpt_neox"])), STEPS, 2, BLOCK_SIZE)) is PagedModel
