"""The paged engine generates the same tokens as transformers' greedy `generate`, whatever the scheduler does."""

import random
from dataclasses import replace
from functools import cache

import pytest

from mini_vllm import EngineConfig, parse_lineup
from mini_vllm.runner.loading import LoadedModel, load_model
from mini_vllm.runner.model_tokenizer import ModelTokenizer
from tests.model.generation import engine_for, engine_greedy, transformers_greedy
from tests.model.shapes import VOCAB_SIZE, random_llama, random_qwen3

NUM_PROMPTS = 32
STORIES = [
    "Tell me a story about Mina and a kite.",
    "Tell me a story about Tom and a drum.",
    "What is the capital of Norway?",
    "Count from 3 to 9.",
]

CONFIGS = {
    "plain": EngineConfig(enable_prefix_caching=False, block_size=16),
    "prefix cache": EngineConfig(block_size=8),
    "chunks": EngineConfig(long_prefill_token_threshold=7, max_num_batched_tokens=32, block_size=4),
    "one at a time": EngineConfig(max_num_seqs=1, block_size=16),
    "preemption": EngineConfig(num_gpu_blocks=40, block_size=4, max_num_batched_tokens=48, max_model_len=140),
    "preemption, no cache": EngineConfig(
        num_gpu_blocks=40, block_size=4, max_model_len=140, enable_prefix_caching=False
    ),
    "blocks of one token": EngineConfig(block_size=1, num_gpu_blocks=2000),
}


@cache
def llama() -> LoadedModel:
    return random_llama()


@cache
def qwen3() -> LoadedModel:
    return random_qwen3()


MODELS = {"llama": llama, "qwen3": qwen3}


@cache
def workload() -> tuple[list[list[int]], list[int]]:
    """Prompts of 1 to 100 tokens, half of them after one of two shared prefixes; 1 to 30 output tokens."""
    rng = random.Random(5)
    shared = [[rng.randrange(VOCAB_SIZE) for _ in range(length)] for length in (24, 41)]
    prompts = []
    for index in range(NUM_PROMPTS):
        own = [rng.randrange(VOCAB_SIZE) for _ in range(rng.choice([1, 2, 7, 15, 16, 17, 33, 59]))]
        prompts.append((shared[index % 2] if index % 4 < 2 else []) + own)
    return prompts, [rng.choice([1, 2, 9, 16, 30]) for _ in prompts]


@cache
def expected(name: str) -> list[list[int]]:
    prompts, lengths = workload()
    return transformers_greedy(MODELS[name]().model, prompts, lengths)


@pytest.mark.parametrize("settings", CONFIGS)
@pytest.mark.parametrize("name", MODELS)
def test_equals_transformers_on_random_models(name: str, settings: str) -> None:
    config = CONFIGS[settings]
    engine = engine_for(MODELS[name](), replace(config, check_invariants=True))
    outputs = engine_greedy(engine, *workload())
    assert [output.outputs[0].token_ids for output in outputs] == expected(name)
    num_preemptions = sum(output.metrics.num_preemptions for output in outputs)
    assert (num_preemptions > 0) == settings.startswith("preemption")
    assert (engine.scheduler.prefix_cache.hit_rate() > 0) == config.enable_prefix_caching


def test_equals_transformers_without_the_other_phases() -> None:
    engine = engine_for(llama(), EngineConfig(), parse_lineup("solution:1,solution:6"))
    outputs = engine_greedy(engine, *workload())
    assert [output.outputs[0].token_ids for output in outputs] == expected("llama")


@cache
def embedded() -> tuple[LoadedModel, ModelTokenizer]:
    return load_model()


@pytest.mark.parametrize("settings", ["prefix cache", "chunks"])
def test_equals_transformers_on_the_embedded_model(settings: str) -> None:
    loaded, tokenizer = embedded()
    names = ["Ada", "Ben", "Zoe", "Leo", "Ivy", "Max", "Eva", "Sam"]
    questions = [text.replace("Mina", name).replace("Tom", name) for name in names for text in STORIES]
    prompts = [tokenizer.apply_chat_template([{"role": "user", "content": text}]) for text in questions]
    lengths = [24 + 8 * (index % 3) for index in range(len(prompts))]
    truth = transformers_greedy(loaded.model, prompts, lengths)
    assert len(prompts) >= NUM_PROMPTS
    assert any(answer[-1] in loaded.eos_token_ids for answer in truth)
    outputs = engine_greedy(engine_for(loaded, CONFIGS[settings]), prompts, lengths)
    assert [output.outputs[0].token_ids for output in outputs] == truth
