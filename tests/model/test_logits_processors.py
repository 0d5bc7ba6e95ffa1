"""Penalties, biases, `min_tokens` and logprobs: compared with a plain loop over the whole text."""

import math
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
import torch

from mini_vllm import SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.outputs import CompletionOutput, Logprob
from mini_vllm.runner.loading import load_model
from tests.model.generation import outputs_of

QUESTIONS = ("Tell me a story about Mina and a kite.", "Repeat these words:\nlamp, cup, dog.", "Count from 3 to 9.")
MAX_TOKENS = 24
ROOMY = EngineConfig(num_gpu_blocks=200)
DRAFTS = SpeculativeConfig(num_speculative_tokens=4, adaptive=False)
ENGINES = {
    "all at once": ("solution", ROOMY),
    "chunks": ("solution", replace(ROOMY, long_prefill_token_threshold=5, max_num_batched_tokens=24)),
    "preemption": ("solution", EngineConfig(num_gpu_blocks=16, block_size=4, max_model_len=60)),
    "drafts": ("solution:1-7", replace(ROOMY, speculative_config=DRAFTS)),
    "in flight": ("solution:1-8", replace(ROOMY, async_scheduling=True)),
    "both": ("solution:1-8", replace(ROOMY, async_scheduling=True, speculative_config=DRAFTS)),
    "without phase 6": ("solution:1-5", ROOMY),
}
SETTINGS = {
    "repetition": SamplingParams(MAX_TOKENS, repetition_penalty=1.4),
    "presence": SamplingParams(MAX_TOKENS, presence_penalty=1.5),
    "frequency": SamplingParams(MAX_TOKENS, frequency_penalty=0.9),
    "encouraged": SamplingParams(MAX_TOKENS, frequency_penalty=-2.0, presence_penalty=-2.0),
    "min_tokens": SamplingParams(MAX_TOKENS, min_tokens=20),
    "bias": SamplingParams(MAX_TOKENS, logit_bias={300: 2.5, 324: -100.0}),
    "all": SamplingParams(
        MAX_TOKENS, min_tokens=9, repetition_penalty=1.2, presence_penalty=0.7, frequency_penalty=0.3, logprobs=2
    ),
}


@cache
def prompts() -> tuple[tuple[int, ...], ...]:
    template = load_model(None)[1].apply_chat_template
    return tuple(tuple(template([{"role": "user", "content": question}])) for question in QUESTIONS)


def penalised(logits: list[float], params: SamplingParams, prompt: list[int], output: list[int]) -> list[float]:
    """Apply the same rules, reimplemented with plain numbers."""
    counts, seen = Counter(output), {*prompt, *output}
    changed = []
    for token_id, logit in enumerate(logits):
        logit += (params.logit_bias or {}).get(token_id, 0.0)
        if token_id in seen:
            penalty = params.repetition_penalty or 1.0
            logit = logit / penalty if logit > 0 else logit * penalty
        logit -= params.frequency_penalty * counts[token_id] + params.presence_penalty * (token_id in counts)
        changed.append(logit)
    return changed


@cache
def expected(name: str) -> list[list[int]]:
    """Return each prompt's greedy tokens from a loop that recomputes the whole text for every token."""
    model, tokenizer, params = load_model(None)[0].model, load_model(None)[1], SETTINGS[name]
    answers = []
    for prompt in prompts():
        output: list[int] = []
        while len(output) < MAX_TOKENS and not (output and output[-1] in tokenizer.eos_token_ids):
            logits = logits_after(model, [*prompt, *output])[-1].tolist()
            changed = penalised(logits, params, list(prompt), output)
            for token_id in tokenizer.eos_token_ids if len(output) < params.min_tokens else ():
                changed[token_id] = -math.inf
            output.append(max(range(len(changed)), key=changed.__getitem__))
        answers.append(output)
    return answers


@torch.inference_mode()
def logits_after(model: torch.nn.Module, token_ids: list[int]) -> torch.Tensor:
    model.set_attn_implementation("sdpa")  # type: ignore[operator]
    device: torch.device = model.device  # type: ignore[assignment]
    logits: torch.Tensor = model(input_ids=torch.tensor([token_ids], device=device), use_cache=False).logits[0]
    return logits.double()


def engine_of(name: str) -> LLMEngine:
    lineup, config = ENGINES[name]
    config = replace(config, check_invariants=True)
    return build_engine(config, parse_lineup(lineup), dense=name == "without phase 6")


def completions_of(engine: LLMEngine, params: SamplingParams) -> list[CompletionOutput]:
    return [output.outputs[0] for output in outputs_of(engine, prompts(), [params] * len(prompts()))]


@pytest.mark.parametrize("engine_name", ENGINES)
def test_every_engine_generates_the_tokens_of_the_plain_loop(engine_name: str) -> None:
    engine = engine_of(engine_name)
    for name, params in SETTINGS.items():
        assert [output.token_ids for output in completions_of(engine, params)] == expected(name), name


def test_the_settings_are_not_without_effect() -> None:
    plain = [output.token_ids for output in completions_of(engine_of("all at once"), SamplingParams(MAX_TOKENS))]
    assert all(expected(name) != plain for name in SETTINGS)
    assert all(len(answer) >= 20 for answer in expected("min_tokens"))
    assert min(len(answer) for answer in plain) < 20


@pytest.mark.parametrize("engine_name", ENGINES)
def test_logprobs_are_the_models_own(engine_name: str) -> None:
    """Values before penalties, one entry per token, with the sampled token among the likeliest."""
    outputs = completions_of(engine_of(engine_name), SETTINGS["all"])
    for prompt, output in zip(prompts(), outputs, strict=True):
        rows = logits_after(load_model(None)[0].model, [*prompt, *output.token_ids]).log_softmax(-1)[len(prompt) - 1 :]
        assert output.logprobs is not None
        assert len(output.logprobs) == len(output.token_ids)
        for row, token_id, found in zip(rows, output.token_ids, output.logprobs, strict=False):
            assert found is not None
            likeliest = row.topk(2).indices.tolist()
            assert set(found) == {token_id, *likeliest}
            assert [found[likely].rank for likely in likeliest] == [1, 2]
            assert found[token_id].rank == int((row > row[token_id]).sum()) + 1
            for likely, logprob in found.items():
                assert logprob.logprob == pytest.approx(float(row[likely]), abs=1e-3)


def test_no_logprobs_unless_asked_and_the_sampled_one_alone_for_zero() -> None:
    engine = engine_of("all at once")
    assert completions_of(engine, SamplingParams(3))[0].logprobs is None
    output = completions_of(engine, SamplingParams(3, logprobs=0))[0]
    assert output.logprobs is not None
    assert [list(found or {}) for found in output.logprobs] == [[token_id] for token_id in output.token_ids]


def test_the_fake_model_is_always_certain() -> None:
    engine = build_engine(EngineConfig(num_gpu_blocks=64), parse_lineup("solution:1-5"))
    engine.add_request("a", "hello", SamplingParams(2, logprobs=3))
    outputs = [output for _ in range(2) for output in engine.step()]
    assert outputs[-1].outputs[0].logprobs == [{token: Logprob(0.0, 1)} for token in outputs[-1].outputs[0].token_ids]


def test_a_seed_with_penalties_gives_the_same_text_with_drafts() -> None:
    params = replace(SETTINGS["all"], temperature=1.0, seed=4, logprobs=None)
    plain = [output.text for output in completions_of(engine_of("all at once"), params)]
    assert plain == [output.text for output in completions_of(engine_of("drafts"), params)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_tokens": 17}, "min_tokens must be an integer from 0 to max_tokens"),
        ({"min_tokens": -1}, "min_tokens must be"),
        ({"presence_penalty": 2.1}, "presence_penalty must be from -2 to 2, got 2.1"),
        ({"frequency_penalty": math.nan}, "frequency_penalty must be"),
        ({"repetition_penalty": 0}, "repetition_penalty must be greater than 0"),
        ({"logit_bias": {3: 101}}, "logit_bias must map token ids to numbers from -100 to 100, got 3: 101"),
        ({"logit_bias": {"3": 1}}, "logit_bias must map token ids"),
        ({"logit_bias": {2048: 1}}, "logit_bias contains token id 2048, but the vocabulary is 0 to"),
        ({"logprobs": 21}, "logprobs must be an integer from 0 to 20, got 21"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(settings: dict[str, object], message: str) -> None:
    engine = build_engine(EngineConfig(num_gpu_blocks=64), parse_lineup("solution:1-5"))
    with pytest.raises(ValueError, match=message):
        engine.add_request("a", "hello", SamplingParams(**settings))  # type: ignore[arg-type]
    assert not engine.has_unfinished_requests()
