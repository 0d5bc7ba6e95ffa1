"""For every folder, `mini-vllm info --model` reports the same results as loading it, but reads no weights."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoTokenizer

from mini_vllm.runner.loading import EMBEDDED_MODEL, load_model
from mini_vllm.runner.model_kinds import STATES
from mini_vllm.runner.model_limits import check_config
from tests.cli.conftest import Commands
from tests.model.folders import BAD, GOOD, NOT_FINITE, edit, make_folder
from tests.model.shapes import LONG_ROPE, REFUSED, SERVED, SMALL, WINDOWED, config, random_model

WIDTH = 15
QUICK = (
    *("a classifier", "a missing file", "a model that hears", "an adapter"),
    *("an encoder-decoder", "bitsandbytes", "cut weights", "GGUF alone", "no tokenizer", "no weights"),
)
REPORT_ALL = """
import pathlib, sys
from mini_vllm_labs.cli.model_report import report
from mini_vllm.runner.find_folder import find_folder
def told(name):
    try:
        list(report(str(name)))
        return "served"
    except ValueError:
        return "refused"
folders = sorted(pathlib.Path(sys.argv[1]).iterdir())
print(*map(told, [find_folder("mini_vllm/embedded_model"), *folders, folders[0] / "nowhere"]), sep="\\n")
print([name for name in ("torch", "transformers") if name in sys.modules])
"""
FOLDERS = {name: spoil for name, (spoil, _) in BAD.items()} | GOOD
ARCHITECTURES = {
    **{name: given for name, (given, _) in REFUSED.items()},
    **SERVED,
    "windows": WINDOWED["gemma3_text"],
    "longrope": LONG_ROPE["phimoe"],
    "dynamic rope": config("llama", **SMALL, rope_scaling={"type": "dynamic", "factor": 4.0}),
}
ENDS = {
    "no generation config": "'<|im_end|>': 2 (config.json)",
    "no end token in the configs": "'<|im_end|>': 2 (tokenizer_config.json)",
    "a list of end tokens": "'<|endoftext|>', '<|im_end|>': 0, 2 (generation_config.json)",
}
EXPECTED = {
    "vocabulary": "1,537 tokens, 1,537 in the tokenizer",
    "end tokens": "'<|endoftext|>', '<|im_end|>': 0, 2 (generation_config.json)",
    "chat template": "chat_template.jinja",
    "longest text": "2,048 tokens: max_position_embeddings is 2048",
    "weights": "2.6 M; 5.3 MB on disk (BF16, 1 file), 10.5 MB in memory in float32, 5.2 in bfloat16",
    "type": "llama (LlamaForCausalLM): 4 layers, 8 heads, 2 of K and V, of 32 numbers",
    "KV cache": "2,048 bytes per token in float32, 1,024 in bfloat16",
}


def told(mini_vllm: Commands, folder: Path) -> dict[str, str]:
    """Return what `info` prints, or the message with which both `info` and loading reject a folder."""
    refused = ""
    try:
        load_model(str(folder))
    except ValueError as error:
        refused = str(error)
    shown = mini_vllm("info", "--model", folder, exit_code=2 if refused else 0)
    if refused:
        assert shown.stderr.strip() == f"error: {refused}"
        return {"refused": refused}
    lines = shown.stdout.splitlines()
    assert len(lines) == 10
    return {line[:WIDTH].strip(): line[WIDTH:] for line in lines}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("saved") / "model")


def test_the_embedded_model_is_described_in_ten_lines(mini_vllm: Commands) -> None:
    shown = told(mini_vllm, EMBEDDED_MODEL)
    assert EXPECTED.items() <= shown.items()
    assert "README.md, adapter/, draft/" in shown["ignored"]
    assert shown["served"].startswith("by the engine's own code")


@pytest.mark.parametrize("name", FOLDERS)
def test_it_says_of_a_folder_what_a_load_says(mini_vllm: Commands, saved: Path, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "model"))
    FOLDERS[name](folder)
    shown = told(mini_vllm, folder)
    assert ("refused" in shown) == (name in BAD)
    if name in ENDS:
        assert shown["end tokens"] == ENDS[name]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_it_says_of_an_architecture_what_a_load_says(mini_vllm: Commands, tmp_path: Path, name: str) -> None:
    random_model(ARCHITECTURES[name]).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(EMBEDDED_MODEL).save_pretrained(tmp_path)
    shown = told(mini_vllm, tmp_path)
    assert ("refused" in shown) == (name in REFUSED)
    if name in SERVED:
        own = name in ("llama", "mistral", "qwen2", "qwen3")
        assert shown["served"].startswith("by the engine's own" if own else "by transformers' code")


@pytest.mark.parametrize("name", NOT_FINITE)
def test_what_only_the_weights_show_is_left_to_the_load(
    mini_vllm: Commands, saved: Path, tmp_path: Path, name: str
) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "model"))
    NOT_FINITE[name](folder)
    assert "if the load finds all weights finite" in mini_vllm("info", "--model", folder).stdout


def test_no_weight_is_read(mini_vllm: Commands, monkeypatch: Any) -> None:
    monkeypatch.setattr("safetensors.torch.load_file", None)
    monkeypatch.setattr("mini_vllm.runner.model_folder.opened_tensors", None)
    before = torch.get_default_device()
    assert "served" in mini_vllm("info", "--model", EMBEDDED_MODEL).stdout
    assert torch.get_default_device() == before


def test_a_folder_that_its_files_rule_out_needs_neither_torch_nor_transformers(saved: Path, tmp_path: Path) -> None:
    """Importing both libraries takes 3 of the 3.6 s that `info` needs for other folders."""
    for index, name in enumerate(QUICK):
        FOLDERS[name](Path(shutil.copytree(saved, tmp_path / f"{index} {name}")))
    edit(model_type="jamba")(Path(shutil.copytree(saved, tmp_path / "states")))
    run = subprocess.run([sys.executable, "-c", REPORT_ALL, tmp_path], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["served", *["refused"] * (len(QUICK) + 2), "[]"], run.stdout


@pytest.mark.parametrize("kind", STATES)
def test_a_type_that_is_refused_by_name_has_layers_without_attention(kind: str) -> None:
    with pytest.raises(ValueError, match=r"layers of type|no attention heads"):
        check_config(AutoConfig.for_model(kind))


def test_a_name_that_is_not_there_is_not_downloaded(mini_vllm: Commands) -> None:
    shown = mini_vllm("info", "--model", "no-such-owner/no-such-model", exit_code=2).stderr
    assert "no model at 'no-such-owner/no-such-model'" in shown
