"""Models are found and described, or rejected with a reason."""

import math
from pathlib import Path
from typing import Any

import pytest

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.runner.loading import EMBEDDED_MODEL, load_model
from tests.model.shapes import random_qwen3, save


def test_the_embedded_model_is_small_and_complete() -> None:
    total = sum(path.stat().st_size for path in EMBEDDED_MODEL.iterdir())
    assert total < 6_000_000
    loaded, tokenizer = load_model()
    assert (loaded.num_layers, loaded.num_kv_heads, loaded.head_dim) == (4, 2, 32)
    assert tokenizer.decode(tokenizer.encode("Mina has a red kite.")) == "Mina has a red kite."
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "Hello!"}])
    assert tokenizer.tokenizer.decode(chat) == "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(chat) == tokenizer.tokenizer.decode(chat, skip_special_tokens=True)


def test_the_error_for_an_unknown_model_gives_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"no model at 'no-such-owner/no-such-model'.*save_pretrained"):
        load_model("no-such-owner/no-such-model")


def test_any_directory_loads(tmp_path: Path) -> None:
    directory = save(random_qwen3(), tmp_path)
    load_model()[1].tokenizer.save_pretrained(directory)
    llm = LLM(str(directory), EngineConfig(num_gpu_blocks=8), parse_lineup("solution"))
    (output,) = llm.generate([[5, 6, 7]], SamplingParams(max_tokens=4))
    assert len(output.outputs[0].token_ids) == 4


def test_bfloat16_is_an_option() -> None:
    llm = LLM(config=EngineConfig(dtype="bfloat16", num_gpu_blocks=16), lineup=parse_lineup("solution"))
    (output,) = llm.chat([{"role": "user", "content": "What is the capital of Norway?"}])
    assert output.outputs[0].text == "The capital of Norway is Oslo."


@pytest.mark.parametrize("dense", [False, True], ids=["paged", "dense"])
def test_a_request_with_unusable_logits_ends_alone(dense: bool) -> None:
    lineup = parse_lineup("solution:1-5" if dense else "solution")
    llm = LLM(config=EngineConfig(num_gpu_blocks=64, check_invariants=True), lineup=lineup, dense=dense)
    runner: Any = llm.engine.runner
    model = runner.loaded.model if dense else runner.model
    plain_forward, spoiled = model.forward, iter([True])

    def forward(*args: object, **kwargs: object) -> Any:
        result = plain_forward(*args, **kwargs)
        if next(spoiled, False):
            (result.logits[0] if dense else result)[0] = math.nan
        return result

    model.forward = forward
    first, second = llm.generate(["One day", "Mina"], SamplingParams(max_tokens=3))
    assert first.outputs[0].finish_reason == "error"
    assert first.error == "the model returned logits that are not finite"
    assert second.outputs[0].finish_reason == "length"
    assert len(second.outputs[0].token_ids) == 3
