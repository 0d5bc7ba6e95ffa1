"""Random sampling depends only on the request's seed."""

import math
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pytest

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.config import SpeculativeConfig

PROMPTS = ["One day, a", "Mina had a", "Once upon a time", "The capital of"]
CREATIVE = SamplingParams(max_tokens=20, temperature=1.0, top_p=0.95, top_k=50, seed=11, ignore_eos=True)


@cache
def roomy() -> LLM:
    return LLM(config=EngineConfig(num_gpu_blocks=64), lineup=parse_lineup("solution"))


def texts(llm: LLM, prompts: list[str], params: SamplingParams) -> list[str]:
    return [output.outputs[0].text for output in llm.generate(prompts, params)]


def test_a_seed_gives_the_same_text_alone_and_in_a_batch() -> None:
    together = texts(roomy(), PROMPTS, CREATIVE)
    alone = [texts(roomy(), [prompt], CREATIVE)[0] for prompt in PROMPTS]
    assert together == alone
    assert together != texts(roomy(), PROMPTS, SamplingParams(max_tokens=20, ignore_eos=True))


def test_a_seed_gives_the_same_text_under_preemption_and_chunking() -> None:
    config = EngineConfig(num_gpu_blocks=16, block_size=4, max_num_batched_tokens=8, max_model_len=60)
    tight = LLM(config=config, lineup=parse_lineup("solution"))
    outputs = tight.generate(PROMPTS, CREATIVE)
    assert sum(output.metrics.num_preemptions for output in outputs) > 0
    assert [output.outputs[0].text for output in outputs] == texts(roomy(), PROMPTS, CREATIVE)


def test_without_a_seed_two_requests_differ() -> None:
    params = SamplingParams(max_tokens=30, temperature=1.5, ignore_eos=True)
    first, second = texts(roomy(), [PROMPTS[0]] * 2, params)
    assert first != second


@cache
def drafting() -> LLM:
    speculative = SpeculativeConfig("draft_model", draft_sample_method="probabilistic", adaptive=False)
    config = EngineConfig(num_gpu_blocks=64, enable_prefix_caching=False, speculative_config=speculative)
    return LLM(config=config, lineup=parse_lineup("solution:1-7"))


@pytest.mark.parametrize(
    ("settings", "alike"),
    [
        ({"temperature": 1}, {"temperature": 1.0}),
        ({"temperature": np.float32(0.5)}, {"temperature": 0.5}),
        ({"temperature": 1e-320}, {"temperature": 0.01}),
        ({"temperature": 5e-324, "top_p": 1e-320}, {"temperature": 0.01, "top_p": 0.01}),
        ({"temperature": 10**30}, {"temperature": 1e30}),
        ({"top_p": 1}, {}),
        ({"top_p": np.float64(0.5)}, {"top_p": 0.5}),
        ({"top_k": np.int64(5)}, {"top_k": 5}),
        ({"top_k": 10**30}, {"top_k": 10**6}),
        ({"repetition_penalty": 1}, {}),
        ({"repetition_penalty": 1e-320}, {"repetition_penalty": 1e-310}),
        (
            {"presence_penalty": 2, "frequency_penalty": np.int8(-1)},
            {"presence_penalty": 2.0, "frequency_penalty": -1.0},
        ),
        ({"max_tokens": np.int32(7), "min_tokens": np.uint8(7)}, {"max_tokens": 7, "min_tokens": 7}),
        ({"seed": np.int64(3), "logprobs": np.int8(2)}, {"seed": 3, "logprobs": 2}),
        ({"logit_bias": {5: np.float32(2)}}, {"logit_bias": {5: 2.0}}),
    ],
    ids=str,
)
def test_numbers_of_any_type_and_size_are_accepted_by_value(settings: dict[str, Any], alike: dict[str, Any]) -> None:
    for llm in (roomy(), drafting()):
        one, other = (
            llm.generate(PROMPTS[:2], SamplingParams(**{"temperature": 0.8, "max_tokens": 9, "seed": 4, **changes}))
            for changes in (settings, alike)
        )
        assert [output.outputs[0].token_ids for output in one] == [output.outputs[0].token_ids for output in other]
        assert all(output.outputs[0].text for output in one)


@pytest.mark.parametrize(
    "name", ["temperature", "top_p", "presence_penalty", "repetition_penalty", "max_tokens", "top_k"]
)
@pytest.mark.parametrize("value", [math.nan, np.float32("inf"), True, "1", Decimal(1), [1], -(10**400)], ids=str)
def test_invalid_or_too_large_numbers_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        SamplingParams(**{name: value}).validate()
