"""Values that a model derives from the longest text in a forward pass never affect another text."""

import logging
import random
from pathlib import Path

import pytest
from transformers import PreTrainedConfig

from mini_vllm import LLM, EngineConfig, parse_lineup
from mini_vllm.runner.contract import check_attention_contract
from mini_vllm.runner.loading import describe_model, load_model
from tests.model.generation import engine_for, engine_greedy, transformers_greedy
from tests.model.shapes import GPT2_SMALL, LONG_ROPE, NO_ENDS, SMALL, VOCAB_SIZE, config, random_model

CHUNKS = EngineConfig(
    block_size=4, num_gpu_blocks=40, max_num_batched_tokens=32, long_prefill_token_threshold=7, check_invariants=True
)
HELD: dict[str, PreTrainedConfig] = {
    **LONG_ROPE,
    "dynamic": config(
        "llama", **SMALL | {"max_position_embeddings": 32}, rope_scaling={"type": "dynamic", "factor": 4}
    ),
    "yarn": config("qwen2", **SMALL | {"max_position_embeddings": 16}, rope_scaling={"type": "yarn", "factor": 2.0}),
    "linear": config("llama", **SMALL | {"max_position_embeddings": 8}, rope_scaling={"type": "linear", "factor": 4.0}),
    "scaled by position": config(
        "ministral3",
        **SMALL | {"max_position_embeddings": 32},
        head_dim=8,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 2.0,
            "original_max_position_embeddings": 16,
            "llama_4_scaling_beta": 0.5,
        },
    ),
}
OPT = config("opt", vocab_size=VOCAB_SIZE, hidden_size=48, num_hidden_layers=2, num_attention_heads=6, ffn_dim=64,
             max_position_embeddings=64, word_embed_proj_dim=48, **NO_ENDS)  # fmt: skip
TOO_LONG: dict[str, tuple[PreTrainedConfig, int, str]] = {
    **{name: (given, 512, "takes angles or a scale from the largest position") for name, given in LONG_ROPE.items()},
    "dynamic": (HELD["dynamic"], 64, "takes angles or a scale from the largest position"),
    # Llama 4 scales queries by their index in the row rather than by their position, which makes a difference starting
    # at 64 tokens.
    "scaled by place": (
        config(
            "llama4_text",
            **SMALL,
            head_dim=8,
            intermediate_size_mlp=64,
            num_local_experts=2,
            layer_types=["full_attention"] * 3,
            no_rope_layers=[0] * 3,
            attn_temperature_tuning=True,
            floor_scale=64,
        ),
        512,
        "counts by itself",
    ),
    "gpt2": (
        config("gpt2", **GPT2_SMALL, n_positions=64),
        65,
        "gpt2 cannot compute a prompt of 65 tokens: index out of range",
    ),
    "opt": (OPT, 65, "opt cannot compute a prompt of 65 tokens: index out of range"),
}


@pytest.mark.parametrize("name", HELD)
def test_texts_up_to_the_longest_equal_those_of_transformers(name: str) -> None:
    model, rng = random_model(HELD[name]), random.Random(3)
    loaded = describe_model(model)
    assert loaded.max_model_len == 32
    first = [rng.randrange(1, VOCAB_SIZE) for _ in range(24)]
    prompts = [first, first[:5], [*first[:12], 3, 4], first[20:], first[7:30], first[3:4]]
    lengths = [min(9, 32 - len(prompt)) for prompt in prompts]
    truth = transformers_greedy(model, prompts, lengths)
    outputs = engine_greedy(engine_for(loaded, CHUNKS), prompts, lengths)
    assert [output.outputs[0].token_ids for output in outputs] == truth


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_text_that_would_change_others_is_seen_when_the_model_is_loaded(name: str) -> None:
    given, longest, reason = TOO_LONG[name]
    with pytest.raises(ValueError, match=reason):
        check_attention_contract(random_model(given), longest)


@pytest.mark.parametrize("dense", [False, True], ids=["paged", "dense"])
@pytest.mark.parametrize(
    ("given", "longest"), [(OPT, 64), (TOO_LONG["gpt2"][0], 64), (LONG_ROPE["phi3"], 32)], ids=["opt", "gpt2", "phi3"]
)
def test_more_than_the_longest_text_is_refused_at_start(
    given: PreTrainedConfig, longest: int, dense: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    random_model(given).save_pretrained(tmp_path)
    load_model()[1].tokenizer.save_pretrained(tmp_path)
    lineup = parse_lineup("solution:1-5" if dense else "solution")
    with pytest.raises(ValueError, match=rf"max_model_len must be at most {longest} for this model \(.*, got 65$"):
        LLM(str(tmp_path), EngineConfig(max_model_len=65, num_gpu_blocks=20), lineup, dense=dense)
    with caplog.at_level(logging.WARNING):
        llm = LLM(str(tmp_path), EngineConfig(num_gpu_blocks=40), lineup, dense=dense)
    assert llm.engine.config.max_model_len == longest
    assert ("max_model_len is 32 and not 512: longrope" in caplog.text) == (given.model_type == "phi3")


def test_layers_of_two_shapes_are_refused() -> None:
    given = config(
        "gemma4_text",
        **SMALL | {"num_hidden_layers": 6},
        head_dim=8,
        global_head_dim=16,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=VOCAB_SIZE,
        sliding_window=9,
    )
    with pytest.raises(ValueError, match="has 2 K and V heads of size 8 in layer 0, but 2 of size 16 in layer 5"):
        check_attention_contract(random_model(given), 512)


@pytest.mark.parametrize("vocab_size", [1, 2, 11])
def test_a_vocabulary_of_a_few_tokens_is_served(vocab_size: int) -> None:
    given = config("llama", **SMALL | {"vocab_size": vocab_size, "pad_token_id": None})
    assert describe_model(random_model(given)).vocab_size == vocab_size
