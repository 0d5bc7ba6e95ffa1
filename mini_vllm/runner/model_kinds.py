"""Recognises a folder's kind by its JSON files and file names, and rejects all kinds except text models.

Only `read_config` imports transformers: `mini-vllm info` calls `refuse_by_files` first, so it rejects these folders
quickly.
"""

from pathlib import Path
from typing import Any

from mini_vllm.runner.model_files import (
    TOKENIZER_SETTINGS,
    TOKENIZERS,
    read_header,
    read_json,
    require_content,
    weight_files,
)

SENSES = {"images": ("vision", "visual", "image", "vq_"), "sound": ("audio", "speech")}
TASKS = {
    "ForSequenceClassification": "which classifies texts, or scores them",
    "ForRewardModel": "which scores texts",
    "ForTokenClassification": "which classifies tokens",
    "ForQuestionAnswering": "which marks answers in a text",
    "ForMultipleChoice": "which chooses between texts",
    "ForMaskedLM": "an encoder, which fills gaps in a text",
    "ForPreTraining": "which is made for pretraining",
    "ForTextEncoding": "an encoder",
    "ForImageClassification": "which classifies images",
    "ForCTC": "which writes down speech",
    "EncoderModel": "an encoder",
}
SERVES = "the engine serves decoder-only text models"
STATES = (  # model types in which some or all layers keep a fixed-size state
    "bamba falcon_h1 falcon_mamba jamba mamba mamba2 nemotron_h olmo_hybrid qwen3_next recurrent_gemma rwkv xlstm "
    "zamba zamba2"
).split()


def read_config(folder: Path) -> dict[str, Any]:
    """Return a text model's config.json. Raises a `ValueError` that names the folder's kind if it is not a text
    model."""
    config = refuse_by_files(folder)
    _refuse_code(folder, config)
    _refuse_tasks(folder, config)
    return config


def refuse_by_files(folder: Path) -> dict[str, Any]:
    """Return config.json. Raises `ValueError` if the JSON files or the weights' headers alone rule the folder out."""
    file = folder / "config.json"
    if folder.is_file():
        raise ValueError(f"{folder} is a file: a model is a folder with config.json, weights and a tokenizer")
    if not file.exists():
        raise ValueError(f"{folder} has no config.json{_what_else(folder)}")
    config = read_json(file)
    if (folder / "adapter_config.json").exists():
        raise ValueError(
            f"{folder} contains both a model and an adapter: move adapter_config.json and "
            "adapter_model.safetensors to a different folder, and pass that folder with --adapter NAME=PATH"
        )
    if (folder / "modules.json").exists():
        raise ValueError(f"{folder} contains a sentence-transformers model, which computes embeddings; {SERVES}")
    _refuse_quantized(folder, config)
    _refuse_senses(folder, config)
    _refuse_classes(folder, config)
    for weights in weight_files(folder):
        require_content(weights)
        if weights.suffix == ".safetensors":
            read_header(weights)
    return config


def tokenizer_files(folder: Path) -> list[Path]:
    """Return the paths of a tokenizer's files.

    Raises `ValueError` if there are no files, or if one is empty, damaged or needs code.
    """
    settings = {name: read_json(folder / name) for name in TOKENIZER_SETTINGS if (folder / name).exists()}
    code = names_code(settings.get("tokenizer_config.json", {}))
    if code and not (folder / "tokenizer.json").exists():
        raise ValueError(
            f"{folder / 'tokenizer_config.json'} needs code from the folder ({code}), which is never run; a "
            "tokenizer.json would make that code unnecessary"
        )
    there = [file for pattern in TOKENIZERS for file in folder.glob(pattern)]
    if not there:
        raise ValueError(f"{folder} has no tokenizer: it needs one of {', '.join(TOKENIZERS)}")
    for file in (*there, *folder.glob("*.jinja"), *folder.glob("merges.txt")):
        require_content(file)
    return there


def names_code(config: dict[str, Any]) -> str:
    """Return the code references in `auto_map`, joined with commas, or "" if there are none."""
    named = config.get("auto_map")
    found = named.values() if isinstance(named, dict) else [named]
    flat = [part for one in found for part in (one if isinstance(one, list) else [one]) if part]
    return ", ".join(sorted({str(one) for one in flat}))


def _what_else(folder: Path) -> str:
    if (folder / "adapter_config.json").exists():
        base = read_json(folder / "adapter_config.json").get("base_model_name_or_path")
        return f": it is an adapter of {base!r}. Open that model, and pass this folder with --adapter NAME=PATH"
    if (folder / "model_index.json").exists():
        return f": it is a diffusion pipeline, which generates images; {SERVES}"
    if (folder / "params.json").exists():
        return ": params.json and consolidated weights are its authors' format, but transformers' format is needed"
    if gguf := sorted(folder.glob("*.gguf")):
        return f": {gguf[0].name} is in llama.cpp's format, but transformers' format with model.safetensors is needed"
    inner = sorted(file.parent.name for file in folder.glob("*/config.json"))
    return f"; did you mean {folder / inner[-1]}?" if inner else ""


def _refuse_quantized(folder: Path, config: dict[str, Any]) -> None:
    for setting in ("quantization_config", "compression_config"):
        if (found := config.get(setting)) is not None:
            method = found.get("quant_method") or next(iter(found), "empty") if isinstance(found, dict) else found
            raise ValueError(
                f"{folder / 'config.json'} has a {setting} ({method}): quantized weights are not supported. Open the "
                "original model"
            )


def _refuse_senses(folder: Path, config: dict[str, Any]) -> None:
    parts = {
        sense: name
        for sense, words in SENSES.items()
        for name, value in config.items()
        if any(word in name for word in words) and (isinstance(value, dict) or (name == "mm_vision_tower" and value))
    }
    if parts:
        raise ValueError(
            f"{folder} contains a model with {' and '.join(parts)} ({config.get('model_type')}, "
            f"{', '.join(parts.values())} in config.json); {SERVES}"
        )


def _refuse_classes(folder: Path, config: dict[str, Any]) -> None:
    """Raise `ValueError` for a class meant for a different task, or a model type with stateful layers."""
    file, kind, architectures = folder / "config.json", config.get("model_type"), config.get("architectures")
    if architectures is not None and not (
        isinstance(architectures, list) and all(isinstance(one, str) for one in architectures)
    ):
        raise ValueError(f"{file}: architectures must be a list of names, got {architectures!r}")
    first = (architectures or [""])[0]
    if task := next((words for end, words in TASKS.items() if first.endswith(end)), None):
        raise ValueError(f"{folder} holds {first}, {task}; {SERVES}")
    if config.get("is_encoder_decoder"):
        raise ValueError(f"{kind} has an encoder; the engine serves decoder-only models ({file})")
    if kind in STATES:
        raise ValueError(
            f"{folder} contains {kind}, whose layers keep one state per sequence; the cache supports only layers that "
            "keep the K and V of each token"
        )


def _refuse_code(folder: Path, config: dict[str, Any]) -> None:
    from transformers import CONFIG_MAPPING
    from transformers import __version__ as version

    file, kind, code = folder / "config.json", config.get("model_type"), names_code(config)
    if kind is not None and not isinstance(kind, str):
        raise ValueError(f"{file}: model_type must be a name, got {kind!r}")
    if kind in CONFIG_MAPPING:
        return
    if code:
        raise ValueError(
            f"{file} needs code from the folder ({code}), which is never run: transformers {version} has no "
            f"model_type {kind!r}"
        )
    if kind is None:
        raise ValueError(f"{file} has no model_type")
    raise ValueError(
        f"{file} has model_type {kind!r}, which transformers {version} does not support; a newer version might"
    )


def _refuse_tasks(folder: Path, config: dict[str, Any]) -> None:
    """Raise `ValueError` if the model has no class that continues a text. A bare model (`LlamaModel`) is accepted."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        MODEL_MAPPING_NAMES,
    )

    file, kind = folder / "config.json", str(config["model_type"])
    first = (config.get("architectures") or [None])[0]
    served, bare = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind), MODEL_MAPPING_NAMES.get(kind)
    if served is None:
        named = f"{kind} ({first})" if first else kind
        raise ValueError(f"{folder} contains {named}, which does not generate text; {SERVES}")
    if kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not config.get("is_decoder"):
        raise ValueError(f"{folder} contains {kind} as an encoder (is_decoder is not true in config.json); {SERVES}")
    if first and first not in {served, bare} and (code := names_code(config)):
        raise ValueError(f"{file} names {first}, which needs code from the folder ({code}); such code is never run")
    if first and first not in {served, bare} and not first.endswith(("LMHeadModel", "ForCausalLM")):
        raise ValueError(f"{folder} contains {first}, which does not generate text; {SERVES}")
