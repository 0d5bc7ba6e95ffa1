"""generation_config.json: the repetition penalty is applied, and loading reports other settings that change texts."""

from pathlib import Path
from typing import Any

import pytest
from transformers import GenerationConfig

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.runner.generation_settings import own_repetition_penalty, warn_of_settings
from mini_vllm.runner.loading import load_model
from tests.model.generation import transformers_greedy

GREEDY = {
    "no_repeat_ngram_size": 3,
    "suppress_tokens": [5, 6],
    "begin_suppress_tokens": [5],
    "bad_words_ids": [[7, 8]],
    "forced_bos_token_id": 4,
    "forced_eos_token_id": 2,
    "min_length": 9,
    "min_new_tokens": 4,
    "encoder_repetition_penalty": 1.2,
    "encoder_no_repeat_ngram_size": 2,
    "exponential_decay_length_penalty": (5, 1.1),
    "sequence_bias": [[[9], -10.0]],
    "num_beams": 4,
    "guidance_scale": 1.5,
    "stop_strings": ["x"],
}
NEUTRAL = {
    "no_repeat_ngram_size": 0, "num_beams": 1, "min_length": 0, "repetition_penalty": 1.0, "do_sample": False,
    "temperature": 0.7, "encoder_repetition_penalty": 1.0, "max_length": 20, "eos_token_id": [2, 0],
}  # fmt: skip


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Messages logged by our own code; transformers' notes on its own settings are left out."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("mini_vllm")]


def settings(**given: Any) -> GenerationConfig:
    return GenerationConfig(**given)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("dense", [False, True], ids=["paged", "dense"])
def test_requests_without_a_repetition_penalty_use_that_of_the_folder(dense: bool, tmp_path: Path) -> None:
    loaded, tokenizer = load_model()
    prompts = [tokenizer.encode(text) for text in ("One day, a girl", "Mina has a red kite. Mina")]
    loaded.model.generation_config.repetition_penalty = 1.4
    loaded.model.save_pretrained(tmp_path)
    tokenizer.tokenizer.save_pretrained(tmp_path)
    penalized = transformers_greedy(loaded.model, prompts, [12, 12])
    loaded.model.generation_config.repetition_penalty = 1.0
    plain = transformers_greedy(loaded.model, prompts, [12, 12])
    assert penalized != plain
    lineup = parse_lineup("solution:1-5" if dense else "solution")
    llm = LLM(str(tmp_path), EngineConfig(num_gpu_blocks=64), lineup, dense=dense)
    for params, expected in (
        (SamplingParams(max_tokens=12), penalized),
        (SamplingParams(max_tokens=12, repetition_penalty=1.0), plain),
    ):
        assert [one.outputs[0].token_ids for one in llm.generate(prompts, params)] == expected


@pytest.mark.parametrize("name", GREEDY)
def test_settings_that_are_not_applied_are_named(name: str, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_settings(settings(**{name: GREEDY[name]}))
    (line,) = said(caplog)
    assert line.endswith(f"not applied, so texts differ from transformers' generate: {name}={GREEDY[name]!r}")


def test_sampling_settings_are_named_in_a_separate_line(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_settings(settings(do_sample=True, temperature=0.7, top_p=0.8, top_k=20, num_beams=2))
    first, second = said(caplog)
    assert first.endswith("generate: num_beams=2")
    assert second.endswith("not applied unless a request sets it: temperature=0.7, top_k=20, top_p=0.8")


def test_settings_without_effect_are_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_settings(settings(**NEUTRAL))
    warn_of_settings(settings())
    warn_of_settings(None)
    assert not said(caplog)


@pytest.mark.parametrize("value", [0, -1.0, 2.5, "1.1", True])
def test_an_impossible_penalty_is_refused(value: object) -> None:
    given = settings()
    given.repetition_penalty = value
    message = "repetition_penalty in generation_config.json must be greater than 0 and at most 2"
    with pytest.raises(ValueError, match=message):
        own_repetition_penalty(given)


def test_long_values_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_settings(settings(suppress_tokens=list(range(1000))))
    assert len(said(caplog)[0]) < 200
