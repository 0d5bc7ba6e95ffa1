"""Drafts from a small model: the text of greedy requests stays the same, and the others keep their distribution."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from mini_vllm import SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.loading import load_model
from mini_vllm.runner.logits_processors import probabilities
from tests.model.generation import outputs_of
from tests.model.test_speculation import CONFIGS, MAX_TOKENS, prompts, truth

CHI_SQUARE_7_AT_A_THOUSANDTH = 24.32


def engine_with(config: EngineConfig, **speculative: object) -> LLMEngine:
    speculative_config = SpeculativeConfig("draft_model", adaptive=False, **speculative)  # type: ignore[arg-type]
    config = replace(config, speculative_config=speculative_config, check_invariants=True)
    return build_engine(config, parse_lineup("solution:1-8"))


def answers_of(engine: LLMEngine, params: SamplingParams) -> list[list[int]]:
    return [output.outputs[0].token_ids for output in outputs_of(engine, prompts(), [params] * len(prompts()))]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_greedy_texts_are_those_of_transformers(name: str, is_async: bool) -> None:
    engine = engine_with(replace(CONFIGS[name], async_scheduling=is_async), draft_sample_method="probabilistic")
    assert answers_of(engine, SamplingParams(max_tokens=MAX_TOKENS)) == truth()
    assert engine.draft_statistics is not None
    assert engine.draft_statistics.num_accepted_tokens > 40


def test_greedy_drafts_leave_a_sampled_text_as_it_is() -> None:
    params = SamplingParams(max_tokens=MAX_TOKENS, temperature=0.8, seed=5)
    drafted = answers_of(engine_with(CONFIGS["plain"]), params)
    plain = build_engine(CONFIGS["plain"], parse_lineup("solution"))
    assert drafted == answers_of(plain, params)


def test_drawn_drafts_keep_the_distribution() -> None:
    """The second token is a draft or replaces one: chi-square test against the target's own probabilities."""
    params = SamplingParams(max_tokens=3, temperature=4.0, top_k=8)
    engine = engine_with(CONFIGS["plain"], draft_sample_method="probabilistic", num_speculative_tokens=3)
    prompt = prompts()[0]
    counts: Counter[tuple[int, ...]] = Counter()
    for first_seed in range(0, 3200, 64):
        for seed in range(first_seed, first_seed + 64):
            engine.add_request(str(seed), prompt, replace(params, seed=seed))
        while engine.has_unfinished_requests():
            counts.update(tuple(one.outputs[0].token_ids) for one in engine.step() if one.finished)
    assert engine.draft_statistics is not None
    num_accepted, num_drafted = engine.draft_statistics.num_accepted_tokens, engine.draft_statistics.num_draft_tokens
    assert 0.1 * num_drafted < num_accepted < 0.9 * num_drafted, "some were accepted and some were not"
    (first, _), *_ = Counter(tokens[0] for tokens in counts.elements()).most_common(1)
    model = load_model(None)[0].model
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([[*prompt, first]])).logits[0, -1:]
    expected = probabilities(logits, params)[0]
    seen = Counter(tokens[1] for tokens in counts.elements() if tokens[0] == first)
    total = sum(seen.values())
    assert total > 300
    statistic = sum((seen[i] - total * p) ** 2 / (total * p) for i, p in enumerate(expected.tolist()) if p > 0)
    assert set(seen) <= set(expected.nonzero().flatten().tolist())
    assert statistic < CHI_SQUARE_7_AT_A_THOUSANDTH


def test_a_block_holds_the_keys_and_values_of_both_models() -> None:
    config = EngineConfig(kv_cache_memory_bytes=2**20, block_size=16)
    plain = build_engine(config, parse_lineup("solution"))
    drafted = engine_with(config)
    # Both models have 2 K/V heads of size 32. K and V are in float32: in 4 layers, or in 4 + 1 with the draft model.
    assert plain.config.num_gpu_blocks == 2**20 // (4 * 2 * 16 * 2 * 32 * 4)
    assert drafted.config.num_gpu_blocks == 2**20 // (5 * 2 * 16 * 2 * 32 * 4)


def test_a_foreign_vocabulary_is_refused(tmp_path: Path) -> None:
    config = LlamaConfig(vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"must have the target's vocabulary of 1537 tokens, but .* has 50"):
        engine_with(CONFIGS["plain"], model=str(tmp_path))


def test_a_draft_model_for_shorter_texts_gives_no_drafts_beyond_its_limit(tmp_path: Path) -> None:
    shape = GPT2Config(vocab_size=1537, n_positions=20, n_embd=32, n_layer=1, n_head=2)
    GPT2LMHeadModel(shape).save_pretrained(tmp_path)
    assert min(map(len, prompts())) < 20 < max(map(len, prompts()))
    engine = engine_with(CONFIGS["plain"], model=str(tmp_path))
    assert answers_of(engine, SamplingParams(max_tokens=MAX_TOKENS)) == truth()
    assert engine.draft_statistics is not None
    assert engine.draft_statistics.num_draft_tokens > 0


def test_a_missing_draft_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no model at"):
        engine_with(CONFIGS["plain"], model=str(tmp_path / "nothing"))
