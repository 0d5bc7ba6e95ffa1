"""Recognises plain Llamas from JSON files and tensor headers, so that `info` need not import torch or transformers.

A plain model has an architecture that the engine computes itself, uses only the settings listed here, and stores every
tensor with its usual name and shape. Anything else, and any doubtful case, is left to transformers, which takes four
seconds to import.
"""

from collections.abc import Iterator
from math import prod
from os.path import expanduser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tokenizers import Tokenizer

from mini_vllm.runner.end_tokens import find_end_tokens
from mini_vllm.runner.model_files import (
    DTYPES,
    GENERATION,
    TOKENIZERS,
    StoredTensor,
    read_header,
    read_json,
    require_content,
    weight_files,
)
from mini_vllm.runner.model_limits import longest_exact_text
from mini_vllm_labs.cli.model_facts import Layers, ModelFacts
from mini_vllm_labs.cli.plain_settings import CLASSES, GENERATION_SETTINGS, SETTINGS, SIZES, is_plain

OTHER_FILES = ("adapter_config.json", "added_tokens.json", "modules.json", "pytorch_model.bin", "tokenizer.model")
TOKENIZER_CLASSES = ("PreTrainedTokenizerFast", "Qwen2Tokenizer", "TokenizersBackend")
SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")


def read_plain_llama(name: str) -> ModelFacts | None:
    """Return what loading finds in a folder, or None if only transformers can tell."""
    folder = Path(expanduser(name))
    try:
        if not folder.is_dir() or any((folder / other).exists() for other in OTHER_FILES):
            return None
        config, generation = read_json(folder / "config.json"), _generation(folder)
        if not is_plain(config, SETTINGS) or not is_plain(generation, GENERATION_SETTINGS) or not _fits(config):
            return None
        stored = _stored(folder)
        if {tensor: one.shape for tensor, one in stored.items()} != dict(_tensors(config)):
            return None
        return _facts(folder, config, generation, stored)
    except Exception:  # damaged files; loading the model rejects them with the same message
        return None


def _fits(config: dict[str, Any]) -> bool:
    """Return whether the sizes are consistent and none of transformers' defaults is needed."""
    if not {*SIZES, "model_type", "tie_word_embeddings", "architectures"} <= config.keys():
        return False
    heads, keys, layers = (config[f"num_{what}"] for what in ("attention_heads", "key_value_heads", "hidden_layers"))
    is_split = "head_dim" in config or (config["model_type"] != "qwen3" and config["hidden_size"] % heads == 0)
    return (
        config["architectures"] == [CLASSES[config["model_type"]]]
        and is_split
        and _head_dim(config) % 2 == 0
        and heads % keys == 0
        and config["max_position_embeddings"] >= 2
        and (config.get("pad_token_id") or 0) < config["vocab_size"]
        and len(config.get("layer_types", range(layers))) == layers
        and not _slides(config)
    )


def _slides(config: dict[str, Any]) -> bool:
    """Return whether layers may have sliding windows: in Mistral by default, in Qwen only if its settings require
    it."""
    default = 4096 if config["model_type"] == "mistral" else None
    return config.get("sliding_window", default) is not None and config.get("use_sliding_window") is not False


def _head_dim(config: dict[str, Any]) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _tensors(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the name and shape of every tensor that a plain model stores."""
    hidden, middle, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"], "v": config["num_key_value_heads"]}
    rows = {part: count * _head_dim(config) for part, count in heads.items()}
    yield "model.embed_tokens.weight", (vocab, hidden)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (vocab, hidden)
    for layer in (f"model.layers.{index}." for index in range(config["num_hidden_layers"])):
        yield layer + "input_layernorm.weight", (hidden,)
        yield layer + "post_attention_layernorm.weight", (hidden,)
        for part, size in rows.items():
            yield f"{layer}self_attn.{part}_proj.weight", (size, hidden)
            if config["model_type"] == "qwen2":
                yield f"{layer}self_attn.{part}_proj.bias", (size,)
            if config["model_type"] == "qwen3" and part != "v":
                yield f"{layer}self_attn.{part}_norm.weight", (_head_dim(config),)
        yield layer + "self_attn.o_proj.weight", (hidden, rows["q"])
        yield layer + "mlp.gate_proj.weight", (middle, hidden)
        yield layer + "mlp.up_proj.weight", (middle, hidden)
        yield layer + "mlp.down_proj.weight", (hidden, middle)


def _generation(folder: Path) -> dict[str, Any]:
    return read_json(folder / GENERATION) if (folder / GENERATION).exists() else {}


def _stored(folder: Path) -> dict[str, StoredTensor]:
    """Return a folder's tensors, or an empty dict unless all of them are floating-point and each is stored only
    once."""
    headers = [read_header(file) for file in weight_files(folder)]
    found = {name: one for header in headers for name, one in header.items()}
    is_plain = len(found) == sum(map(len, headers)) and all(one.dtype in DTYPES for one in found.values())
    return found if is_plain else {}


def _facts(
    folder: Path, config: dict[str, Any], generation: dict[str, Any], stored: dict[str, StoredTensor]
) -> ModelFacts | None:
    settings = _tokenizer_settings(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    names = _added_tokens(settings)
    if None in map(tokenizer.token_to_id, names):
        return None
    eos = settings.get("eos_token")
    named = {
        GENERATION: generation.get("eos_token_id"),
        "config.json": config.get("eos_token_id"),
        "tokenizer_config.json": eos and tokenizer.token_to_id(_content(eos)),
    }
    ends = find_end_tokens(folder, named, config["vocab_size"])
    heads, keys = config["num_attention_heads"], config["num_key_value_heads"]
    template = folder / "chat_template.jinja"
    return ModelFacts(
        path=folder,
        type_and_class=f"{config['model_type']} ({CLASSES[config['model_type']]})",
        is_own_code=True,
        layers=Layers(config["num_hidden_layers"], heads, keys, _head_dim(config)),
        vocab_size=config["vocab_size"],
        num_parameters=sum(prod(one.shape) for one in stored.values()),
        longest_text=longest_exact_text(SimpleNamespace(**config)),
        num_tokenizer_tokens=tokenizer.get_vocab_size(),
        end_tokens=ends,
        end_names=[str(tokenizer.id_to_token(token_id)) for token_id in sorted(ends.token_ids)],
        has_chat_template=bool(
            template.read_text(encoding="utf-8") if template.exists() else settings.get("chat_template")
        ),
        stored=stored,
        ignored_tensors=[],
        generation_config=SimpleNamespace(**generation),
    )


def _tokenizer_settings(folder: Path) -> dict[str, Any]:
    """Return the contents of tokenizer_config.json. Raises `ValueError` if only transformers knows which tokenizer to
    build."""
    for pattern in (*TOKENIZERS, "*.jinja", "merges.txt"):
        for file in folder.glob(pattern):
            require_content(file)
    settings, more = read_json(folder / "tokenizer_config.json"), folder / "special_tokens_map.json"
    others = read_json(more) if more.exists() else {}
    differs = any(name in SPECIAL and _content(one) != _content(settings.get(name)) for name, one in others.items())
    if differs or settings.get("tokenizer_class") not in TOKENIZER_CLASSES or "auto_map" in settings:
        raise ValueError(f"{folder} has a tokenizer that only transformers can build")
    return settings


def _added_tokens(settings: dict[str, Any]) -> set[str]:
    """Return the tokens that transformers adds to a tokenizer that lacks them."""
    lists = (settings.get("extra_special_tokens"), settings.get("additional_special_tokens"))
    found = [*settings.get("added_tokens_decoder", {}).values(), *(token for tokens in lists for token in tokens or [])]
    return {_content(token) for token in (*found, *map(settings.get, SPECIAL)) if token is not None}


def _content(token: Any) -> Any:
    return token["content"] if isinstance(token, dict) else token
