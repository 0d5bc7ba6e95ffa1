"""Drafts never change the real model's text: greedy text equals transformers', and sampled text equals the text without
drafts."""

import random
from dataclasses import replace
from functools import cache

import pytest

from mini_vllm import SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.electives.speculation import ProposeByLookup
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.drafts.drafting_runner import DraftingRunner
from mini_vllm.runner.drafts.proposer import PromptLookup
from mini_vllm.runner.loading import load_model
from tests.model.generation import outputs_of, transformers_greedy

QUESTIONS = (
    "Tell me a story about Mina and a kite.",
    "Repeat these words:\nlamp, cup, dog, tree.",
    "What is the capital of Norway?",
    "Count from 3 to 9.",
    "Tell me a story about Tom and a drum.",
    "Repeat these words:\nboat, cake, hat, bird, cat.",
)
MAX_TOKENS = 40
CONFIGS = {
    "plain": EngineConfig(num_gpu_blocks=200),
    "chunks": EngineConfig(num_gpu_blocks=200, long_prefill_token_threshold=5, max_num_batched_tokens=24),
    "preemption": EngineConfig(num_gpu_blocks=34, block_size=4, max_num_batched_tokens=48, max_model_len=130),
    "no cache": EngineConfig(num_gpu_blocks=200, enable_prefix_caching=False, block_size=1),
}


@cache
def prompts() -> list[list[int]]:
    template = load_model(None)[1].apply_chat_template
    return [template([{"role": "user", "content": question}]) for question in QUESTIONS]


@cache
def truth() -> list[list[int]]:
    return transformers_greedy(load_model(None)[0].model, prompts(), [MAX_TOKENS] * len(QUESTIONS))


def half_right(seed: int, answers: list[list[int]]) -> ProposeByLookup:
    """Return a draft proposer that knows the correct tokens and is occasionally wrong."""
    rng, texts = random.Random(seed), [[*prompt, *answer] for prompt, answer in zip(prompts(), answers, strict=True)]

    def propose(
        token_ids: list[int], num_speculative_tokens: int, prompt_lookup_min: int, prompt_lookup_max: int
    ) -> list[int]:
        known = next((text for text in texts if text[: len(token_ids)] == token_ids), token_ids)
        drafts = known[len(token_ids) : len(token_ids) + num_speculative_tokens]
        return [token_id if rng.random() < 0.8 else token_id ^ 1 for token_id in drafts]

    return propose


def answers_of(
    config: EngineConfig, params: SamplingParams, drafter: ProposeByLookup | None
) -> tuple[list[list[int]], LLMEngine]:
    speculative = None if drafter is None else SpeculativeConfig(num_speculative_tokens=5, adaptive=False)
    config = replace(config, speculative_config=speculative, check_invariants=True)
    engine = build_engine(config, parse_lineup("solution:1-7"))
    if drafter is not None:
        assert isinstance(engine.runner, DraftingRunner)
        assert isinstance(engine.runner.proposer, PromptLookup)
        engine.runner.proposer.look_up = drafter
    outputs = outputs_of(engine, prompts(), [params] * len(QUESTIONS))
    return [output.outputs[0].token_ids for output in outputs], engine


@pytest.mark.parametrize("name", CONFIGS)
def test_greedy_texts_are_those_of_transformers(name: str) -> None:
    answers, engine = answers_of(CONFIGS[name], SamplingParams(max_tokens=MAX_TOKENS), half_right(7, truth()))
    assert answers == truth()
    assert engine.draft_statistics is not None
    accepted = engine.draft_statistics.num_accepted_tokens_per_pos
    assert 60 < sum(accepted) < engine.draft_statistics.num_draft_tokens
    assert accepted[3] > 0


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
def test_a_sampled_text_is_the_same_with_drafts_and_without(temperature: float) -> None:
    params = SamplingParams(max_tokens=MAX_TOKENS, temperature=temperature, top_k=40, top_p=0.95, seed=5)
    plain, _ = answers_of(CONFIGS["plain"], params, None)
    drafted, engine = answers_of(CONFIGS["plain"], params, half_right(8, plain))
    assert drafted == plain
    assert plain != truth()
    assert engine.draft_statistics is not None
    assert engine.draft_statistics.num_accepted_tokens > 60
