"""Plain Llamas are recognised from JSON and headers alone, with the same results as from transformers."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from mini_vllm.runner.find_folder import find_folder
from mini_vllm.runner.loading import EMBEDDED_MODEL
from mini_vllm_labs.cli.model_facts import ask_transformers
from mini_vllm_labs.cli.plain_llama import read_plain_llama
from tests.model.folders import BAD, GOOD, Spoil, both, edit, make_folder
from tests.model.shapes import SERVED, WINDOWED, random_model

GENERATION, TOKENIZER = "generation_config.json", "tokenizer_config.json"
SETTINGS: dict[str, Spoil] = {
    "every setting of an old Llama": edit(
        torch_dtype="float16", pretraining_tp=1, rope_theta=10000.0, attention_bias=False, mlp_bias=False
    ),
    "a scaled rope": edit(rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}),
    "the old name of a scaled rope": edit(rope_scaling={"type": "dynamic", "factor": 2.0}),
    "other angles": edit(rope_parameters={"rope_type": "default", "rope_theta": 500000.0}),
    "another activation": edit(hidden_act="gelu"),
    "a window": edit(sliding_window=16),
    "a Mistral without a word of windows": edit(model_type="mistral", architectures=["MistralForCausalLM"]),
    "a Qwen3 whose head size is the default": edit(
        model_type="qwen3", architectures=["Qwen3ForCausalLM"], head_dim=None
    ),
    "more windows than layers": edit(layer_types=["full_attention"] * 3),
    "no number of K and V heads": edit(num_key_value_heads=None),
    "a padding token outside": edit(pad_token_id=5000),
    "an unknown setting": edit(attention_chunk_size=64),
    "a drawing generation config": edit(GENERATION, do_sample=True, temperature=0.7, top_k=20, top_p=0.9),
    "a temperature of 0": edit(GENERATION, do_sample=False, temperature=0.0),
    "a setting that is not applied": edit(GENERATION, no_repeat_ngram_size=3),
    "a penalty": edit(GENERATION, repetition_penalty=1.1),
    "an end token as text": edit(GENERATION, eos_token_id="2"),
    "an end token below 0": edit(eos_token_id=-1),
    "a new special token": edit(TOKENIZER, additional_special_tokens=["<|new|>"]),
    "an added token": edit(TOKENIZER, added_tokens_decoder={"1537": {"content": "<|new|>", "special": True}}),
    "another tokenizer class": edit(TOKENIZER, tokenizer_class="GPT2Tokenizer"),
    "the end token of another file": edit("special_tokens_map.json", eos_token="<|endoftext|>"),
    "the same end token in another file": edit("special_tokens_map.json", eos_token="<|im_end|>"),
    "a template in the tokenizer's settings": both(
        lambda folder: (folder / "chat_template.jinja").unlink(), edit(TOKENIZER, chat_template="{{ messages }}")
    ),
    "an empty template": lambda folder: (folder / "chat_template.jinja").write_text(""),
    "files that are not read": lambda folder: (folder / "optimizer.pt").write_text("x"),
}
PLAIN = {
    "as it was saved",
    "every setting of an old Llama",
    "other angles",
    "a drawing generation config",
    "a penalty",
    "an end token below 0",
    "the same end token in another file",
    "a template in the tokenizer's settings",
    "files that are not read",
}
OWN_CODE = {name: (SERVED[name], True) for name in ("llama", "qwen2", "qwen3", "mistral")}
OWN_CODE |= {f"{name} with windows": (WINDOWED[name], False) for name in ("qwen2", "mistral")}
SPOILS = SETTINGS | GOOD | {name: spoil for name, (spoil, _) in BAD.items()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("saved") / "model")


def facts_are_equal(folder: Path) -> bool:
    """Return whether a folder is plain, after checking that both ways of reading it agree."""
    plain = read_plain_llama(str(folder))
    if plain is None:
        return False
    asked = ask_transformers(str(folder))
    given = vars(plain.generation_config)
    assert {name: getattr(asked.generation_config, name, value) for name, value in given.items()} == given
    assert replace(plain, generation_config=None) == replace(asked, generation_config=None)
    return True


@pytest.mark.parametrize("name", SPOILS)
def test_a_folder_is_read_as_transformers_does_or_left_to_it(saved: Path, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "model"))
    SPOILS[name](folder)
    is_plain = facts_are_equal(folder)
    assert not (is_plain and name in BAD)
    assert is_plain or name not in PLAIN


@pytest.mark.parametrize(("config", "is_plain"), OWN_CODE.values(), ids=OWN_CODE)
def test_architectures_of_the_engine_s_own_code(tmp_path: Path, config: Any, is_plain: bool) -> None:
    random_model(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(EMBEDDED_MODEL).save_pretrained(tmp_path)
    assert facts_are_equal(tmp_path) == is_plain


def test_a_plain_folder_is_shown_without_torch_or_transformers() -> None:
    code = (
        "import sys; from mini_vllm_labs.cli.main import app; "
        "app(['info', '--model', sys.argv[1]], standalone_mode=False); "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code, EMBEDDED_MODEL], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("\n") == 10


@pytest.mark.parametrize("name", ["~nobody-here", "./~nobody-here"])
def test_a_folder_whose_name_begins_with_a_tilde_is_found(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path / "~nobody-here")
    assert find_folder(name, download=False) == Path(name)
    assert read_plain_llama(name) is not None
