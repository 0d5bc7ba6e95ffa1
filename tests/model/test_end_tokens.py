"""Tests which tokens end a text, and stop strings that are control tokens."""

from pathlib import Path
from typing import Any

import pytest

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.runner.end_tokens import find_end_tokens
from mini_vllm.sampling_params import StructuredOutputsParams
from tests.model.folders import both, edit, make_folder

QUESTION: Any = [{"role": "user", "content": "What is the capital of Norway?"}]
FOUND: list[tuple[list[Any], str]] = [  # the end tokens named in the generation config, the config and the tokenizer
    ([[2, 0], 2, 2], "0, 2 (generation)"),
    ([5, 2, 3], "5 (generation; not [2] of config; not [3] of tokenizer)"),
    ([None, 2, 3], "2 (config; not [3] of tokenizer)"),
    ([-1, [2, -1], None], "2 (config)"),
    ([[], None, 3], "3 (tokenizer)"),
    ([0, None, 0], "0 (generation)"),
    ([None, -1, None], "none: a text ends only at its largest length"),
]


@pytest.mark.parametrize(("named", "shown"), FOUND)
def test_the_first_source_that_names_any_is_used_and_all_are_shown(named: list[Any], shown: str) -> None:
    sources = dict(zip(("generation", "config", "tokenizer"), named, strict=True))
    assert str(find_end_tokens(Path("f"), sources, 6)) == shown


@pytest.mark.parametrize("value", [6, [2, 6], True, 2.0, "</s>", [None]])
def test_an_end_token_that_the_model_cannot_write_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"f/config: the end token \(eos_token_id\) must be from 0 to 5"):
        find_end_tokens(Path("f"), {"config": value}, 6)


def test_structured_output_needs_no_more_than_the_end_token_of_the_tokenizer(tmp_path: Path) -> None:
    both(edit(eos_token_id=None), edit("generation_config.json", eos_token_id=None))(make_folder(tmp_path))
    llm = LLM(str(tmp_path), EngineConfig(num_gpu_blocks=16), parse_lineup("solution:1-9"))
    params = SamplingParams(max_tokens=20, structured_outputs=StructuredOutputsParams(choice=("yes", "no")))
    (output,) = llm.generate(["Mina"], params)
    assert (output.outputs[0].text in ("yes", "no"), output.outputs[0].finish_reason) == (True, "stop")


@pytest.mark.parametrize("stop", ["<|im_end|>", "Oslo"])
def test_a_stop_string_is_found_whether_it_is_text_or_a_control_token(stop: str) -> None:
    llm = LLM(config=EngineConfig(num_gpu_blocks=16), lineup=parse_lineup("solution"))
    params = SamplingParams(max_tokens=30, stop=(stop,), ignore_eos=True)
    (output,) = llm.chat(QUESTION, params)
    assert output.outputs[0].text == "The capital of Norway is " + "Oslo." * (stop != "Oslo")
    assert output.outputs[0].finish_reason == "stop"


@pytest.mark.parametrize("stop", ["<|im_end|>\n", "\n<|im_start|>user", "<|im_end|><|im_end|>"])
def test_a_stop_string_that_no_text_can_hold_is_refused(stop: str) -> None:
    llm = LLM(config=EngineConfig(num_gpu_blocks=16), lineup=parse_lineup("solution"))
    with pytest.raises(ValueError, match=r"contains the control token '<\|im_.*'\. Text never contains control tokens"):
        llm.generate(["Mina"], SamplingParams(stop=(stop,)))
