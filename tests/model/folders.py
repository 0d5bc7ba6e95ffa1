"""Folders of a tiny Llama, good or with one fault, and the messages from loading and `mini-vllm info`."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from mini_vllm.runner.loading import EMBEDDED_MODEL

Spoil = Callable[[Path], object]
Tensors = dict[str, torch.Tensor]
WEIGHTS = "model.safetensors"
UP = "model.layers.0.mlp.up_proj.weight"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5252080\n"
SIZES: dict[str, Any] = {
    "vocab_size": 1537,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
VISION = {"vision_config": {"hidden_size": 8}}


def make_folder(folder: Path) -> Path:
    """Save a Llama with random weights and an untied output layer, together with the course's tokenizer."""
    torch.manual_seed(3)
    LlamaForCausalLM(LlamaConfig(**SIZES)).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(EMBEDDED_MODEL / name, folder)
    return folder


def edit(name: str = "config.json", /, **changes: Any) -> Spoil:
    """Change settings in a JSON file; None deletes a setting."""

    def spoil(folder: Path) -> None:
        file = folder / name
        settings = json.loads(file.read_text()) | changes if file.exists() else changes
        file.write_text(json.dumps({key: value for key, value in settings.items() if value is not None}))

    return spoil


def write(name: str, content: str = "") -> Spoil:
    return lambda folder: (folder / name).write_text(content)


def delete(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def rename(name: str, new: str) -> Spoil:
    return lambda folder: (folder / name).rename(folder / new)


def cut(name: str, num_bytes: int) -> Spoil:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:num_bytes])


def tensors(change: Callable[[Tensors], Tensors]) -> Spoil:
    """Save changed tensors in place of the model's."""

    def spoil(folder: Path) -> None:
        found = {name: tensor.clone() for name, tensor in load_file(folder / WEIGHTS).items()}
        save_file(change(found), folder / WEIGHTS, {"format": "pt"})

    return spoil


def without(part: str) -> Spoil:
    return tensors(lambda found: {name: one for name, one in found.items() if part not in name})


def plus(**more: torch.Tensor) -> Spoil:
    return tensors(lambda found: found | {name.replace("__", "."): one for name, one in more.items()})


def named(change: Callable[[str], str]) -> Spoil:
    return tensors(lambda found: {change(name): one for name, one in found.items()})


def saved_as(change: Callable[[Tensors], dict[Any, torch.Tensor]]) -> Spoil:
    """Save changed tensors in a pickle in place of the model's."""

    def spoil(folder: Path) -> None:
        torch.save(change(load_file(folder / WEIGHTS)), folder / "pytorch_model.bin")
        (folder / WEIGHTS).unlink()

    return spoil


def sharded(folder: Path) -> None:
    """Split the weights into two files with an index."""
    found = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    shards = {name: f"model-0000{1 + ('layers' in name)}-of-00002.safetensors" for name in found}
    for shard in {*shards.values()}:
        save_file({name: found[name] for name in found if shards[name] == shard}, folder / shard)
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": shards}))


def both(*spoils: Spoil) -> Spoil:
    return lambda folder: [spoil(folder) for spoil in spoils]


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def first(name: str, value: float) -> Spoil:
    """Set one number in a tensor."""

    def change(found: Tensors) -> Tensors:
        found[name].view(-1)[0] = value
        return found

    return tensors(change)


def shaped(name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Spoil:
    return tensors(lambda found: found | {name: torch.zeros(shape, dtype=dtype)})


GOOD: dict[str, Spoil] = {
    "as it was saved": lambda folder: None,
    "DDP": named(partial(str.__add__, "module.")),
    "torch.compile": named(partial(str.__add__, "_orig_mod.")),
    "FSDP": named(lambda name: name.replace("layers.0.", "layers.0._fsdp_wrapped_module.")),
    "checkpointed": named(lambda name: name.replace("layers.0.", "layers.0._checkpoint_wrapped_module.")),
    "a wrapper's model": named(partial(str.__add__, "model.")),
    "merged by PEFT": named(partial(str.__add__, "base_model.model.")),
    "saved from the inner model, tied": both(
        edit(tie_word_embeddings=True),
        tensors(lambda found: {k.removeprefix("model."): v for k, v in found.items() if k != "lm_head.weight"}),
    ),
    "an old buffer that transformers lists as ignored": plus(
        model__layers__0__self_attn__rotary_emb__inv_freq=torch.ones(4)
    ),
    "constants that old releases saved": plus(
        model__layers__0__attn__masked_bias=torch.tensor(-1e4), decoder__version=torch.ones(1)
    ),
    "two files": sharded,
    "tensors in a pickle": saved_as(lambda found: {**found}),
    "code of the folder that transformers does not need": edit(
        auto_map={"AutoModelForCausalLM": "modeling_evil.Evil", "AutoConfig": "modeling_evil.Evil"}
    ),
    "a tokenizer's code, with tokenizer.json": edit(
        "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", None]}
    ),
    "no generation config": delete("generation_config.json"),
    "no end token in the configs": both(edit(eos_token_id=None), edit("generation_config.json", eos_token_id=None)),
    "an end token of -1": both(edit(eos_token_id=-1), edit("generation_config.json", eos_token_id=-1)),
    "a list of end tokens": edit("generation_config.json", eos_token_id=[2, 0]),
    "quantization_config null": lambda folder: (folder / "config.json").write_text(
        (folder / "config.json").read_text().replace("{", '{"quantization_config": null,', 1)
    ),
}
BAD: dict[str, tuple[Spoil, str]] = {
    # Tensors
    "no output layer": (without("lm_head"), r"1 missing \(lm_head.weight\)"),
    "one layer missing": (without("layers.1."), r"9 missing \(model.layers.1.* and 4 more\)"),
    "one layer more": (edit(num_hidden_layers=1), r"9 unknown \(model.layers.1.* and 4 more\)"),
    "a reward model": (
        both(without("lm_head"), plus(score__weight=torch.ones(1, 32))),
        r"missing .*1 unknown \(score.weight",
    ),
    "a value head": (plus(v_head__summary__weight=torch.ones(1, 32)), r"1 unknown \(v_head"),
    "saved from the inner model": (
        tensors(lambda found: {k.removeprefix("model."): v for k, v in found.items() if k != "lm_head.weight"}),
        r"missing \(lm_head.weight",
    ),
    "embeddings alone": (
        tensors(lambda found: {"model.embed_tokens.weight": found["model.embed_tokens.weight"]}),
        "missing",
    ),
    "names of another library": (named(partial(str.__add__, "student.")), "missing .* unknown"),
    "another shape": (
        shaped(UP, 50, 32),
        r"1 of a different shape \(model.layers.0.mlp.up_proj.weight \[50, 32\], not \[48, 32\]",
    ),
    "a vocabulary of another size": (edit(vocab_size=1540), "2 of a different shape"),
    "a tensor twice": (
        tensors(lambda found: found | {f"module.{UP}": found[UP].clone()}),
        "both belong to layers.0.mlp.up_proj.weight",
    ),
    "int8 weights": (shaped(UP, 48, 32, dtype=torch.int8), "quantized, which is not supported: I8 in model.layers.0"),
    "fp8 weights": (shaped(UP, 48, 32, dtype=torch.float8_e4m3fn), "quantized.*: F8_E4M3 in model"),
    "GPTQ's tensors": (
        plus(model__layers__0__mlp__up_proj__qweight=torch.ones(4, dtype=torch.int32)),
        "1 unknown .*qweight",
    ),
    # Files
    "no weights": (delete(WEIGHTS), "has no weights: neither"),
    "a missing file": (
        both(sharded, delete("model-00002-of-00002.safetensors")),
        "lacks model-00002-of-00002.safetensors",
    ),
    "a file outside": (
        both(sharded, edit(f"{WEIGHTS}.index.json", weight_map={UP: "../x.safetensors"})),
        r"may name only files in the same folder, got '../x.safetensors'",
    ),
    "no index": (rename(WEIGHTS, "model-00001-of-00001.safetensors"), "has no weights.* not named"),
    "Mistral's own format": (
        rename(WEIGHTS, "consolidated.safetensors"),
        "has no weights.*consolidated.safetensors is",
    ),
    "GGUF": (both(delete(WEIGHTS), write("m.gguf", "GGUF")), "has no weights.*m.gguf is the format of llama.cpp"),
    "GGUF alone": (both(empty, write("m.gguf", "GGUF")), "no config.json: m.gguf is in llama.cpp's format"),
    "a git-lfs pointer": (write(WEIGHTS, POINTER), "model.safetensors is a git-lfs pointer.*git lfs pull"),
    "config.json a git-lfs pointer": (write("config.json", POINTER), "config.json is a git-lfs pointer"),
    "tokenizer.json a git-lfs pointer": (write("tokenizer.json", POINTER), "tokenizer.json is a git-lfs pointer"),
    "chat_template.jinja a git-lfs pointer": (write("chat_template.jinja", POINTER), "jinja is a git-lfs pointer"),
    "a folder for a file": (
        both(delete("config.json"), lambda folder: (folder / "config.json").mkdir()),
        "Is a directory",
    ),
    "a link to nowhere": (
        both(delete(WEIGHTS), lambda folder: (folder / WEIGHTS).symlink_to("nowhere")),
        "model.safetensors cannot be read: No such file",
    ),
    "cut weights": (cut(WEIGHTS, 20_000), "model.safetensors is truncated, damaged or not a safetensors file"),
    "a cut header": (cut(WEIGHTS, 100), "model.safetensors is truncated, damaged"),
    "empty weights": (write(WEIGHTS), "model.safetensors is empty"),
    "a damaged pickle": (
        both(delete(WEIGHTS), write("pytorch_model.bin", "not")),
        "pytorch_model.bin is damaged, or contains objects other than tensors",
    ),
    "a pickle of no tensors": (
        both(delete(WEIGHTS), lambda folder: torch.save({"epoch": 3}, folder / "pytorch_model.bin")),
        "must contain a dictionary of named",
    ),
    "a pickle of numbered tensors": (
        saved_as(lambda found: dict(enumerate(found.values()))),
        "must contain a dictionary",
    ),
    "a pickle of sparse tensors": (
        saved_as(lambda found: found | {UP: found[UP].to_sparse()}),
        "must contain a dictionary of named, non-sparse tensors",
    ),
    "no tokenizer": (delete("tokenizer.json"), "has no tokenizer|tokenizer in .* cannot be read"),
    "a cut tokenizer": (cut("tokenizer.json", 500), "tokenizer.json is not JSON"),
    "a broken tokenizer_config.json": (write("tokenizer_config.json", "{"), "tokenizer_config.json is not JSON"),
    "no config.json": (delete("config.json"), "has no config.json"),
    "an empty config.json": (write("config.json"), "config.json is empty"),
    "a broken config.json": (write("config.json", "{,"), "config.json is not JSON"),
    "a config.json of a list": (write("config.json", "[]"), "config.json must contain a JSON object, got list"),
    "a broken generation config": (write("generation_config.json", "{"), "generation_config.json is not JSON"),
    # Settings
    "no model_type": (edit(model_type=None), "has no model_type"),
    "an unknown model_type": (edit(model_type="llama9"), "model_type 'llama9', which transformers .* does not support"),
    "a model_type of another type": (edit(model_type=["llama"]), "model_type must be a name"),
    "a width in words": (edit(hidden_size="wide"), "config.json: .*hidden_size"),
    "no layers": (edit(num_hidden_layers=0), "num_hidden_layers must be an integer of at least 1, got 0"),
    "K/V heads that do not divide": (edit(num_key_value_heads=3), "multiple of num_key_value_heads, got 4 and 3"),
    "heads that do not divide": (edit(num_attention_heads=6, head_dim=None), "config.json: .*32.*6"),
    "an unknown activation": (edit(hidden_act="swoosh"), "config.json: transformers cannot build .*swoosh"),
    "rope of another type": (edit(rope_parameters=7), "config.json"),
    "architectures in a word": (edit(architectures="LlamaForCausalLM"), "architectures must be a list of names"),
    "an end token beyond the vocabulary": (
        edit("generation_config.json", eos_token_id=[2, 1537]),
        r"generation_config.json: the end token \(eos_token_id\) must be from 0 to 1536.*got 1537",
    ),
    "an end token in words": (edit("generation_config.json", eos_token_id="</s>"), "must be from 0 to 1536.*'</s>'"),
    "GPTQ": (
        edit(quantization_config={"quant_method": "gptq", "bits": 4}),
        r"quantization_config \(gptq\): quantized weights",
    ),
    "bitsandbytes": (edit(quantization_config={"load_in_4bit": True}), r"\(load_in_4bit\): quantized weights"),
    # Kinds
    "code of the folder": (
        edit(model_type="evil", auto_map={"AutoConfig": "modeling_evil.Evil"}),
        r"needs code from the folder \(modeling_evil.Evil\), which is never run",
    ),
    "a class of the folder": (
        edit(architectures=["EvilForCausalLM"], auto_map={"AutoModelForCausalLM": "modeling_evil.EvilForCausalLM"}),
        "EvilForCausalLM, which needs code from the folder",
    ),
    "a tokenizer of the folder": (
        both(delete("tokenizer.json"), edit("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", None]})),
        r"tokenizer_config.json needs code from the folder \(evil.T\)",
    ),
    "an adapter": (
        both(empty, edit("adapter_config.json", base_model_name_or_path="meta/llama")),
        "it is an adapter of 'meta/llama'.*--adapter NAME=PATH",
    ),
    "a model and an adapter": (write("adapter_config.json", "{}"), "contains both a model and an adapter"),
    "a model that sees": (edit(model_type="gemma3", **VISION), "contains a model with images"),
    "a model that sees, of an unknown type": (edit(model_type="llava_x", **VISION), "contains a model with images"),
    "a model that hears": (edit(model_type="qwen2_audio", audio_config={}), "contains a model with sound"),
    "Fuyu": (edit(model_type="fuyu"), r"not a text-only model \(fuyu"),
    "a classifier": (edit(architectures=["LlamaForSequenceClassification"]), "which classifies texts"),
    "an encoder": (edit(model_type="bert", architectures=["BertForMaskedLM"]), "an encoder, which fills gaps"),
    "an encoder without a task": (edit(model_type="bert", architectures=["BertModel"]), "contains bert as an encoder"),
    "a vision encoder": (edit(model_type="vit", architectures=["ViTModel"]), "vit .*does not generate text"),
    "an encoder-decoder": (edit(model_type="t5", is_encoder_decoder=True), "has an encoder"),
    "a diffusion pipeline": (both(empty, write("model_index.json", "{}")), "diffusion pipeline"),
    "sentence-transformers": (write("modules.json", "[]"), "sentence-transformers model, which computes embeddings"),
}
NOT_FINITE: dict[str, Spoil] = {"NaN": first(UP, float("nan")), "infinity": first("lm_head.weight", float("-inf"))}
"""Only a load sees these: `mini-vllm info` reads no weight."""
