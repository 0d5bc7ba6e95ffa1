"""Reads a model folder's JSON and safetensors headers. This module does not import torch, so that `info` is fast."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

GIT_LFS_POINTER = b"version https://git-lfs"
GENERATION = "generation_config.json"
TOKENIZERS = ("tokenizer.json", "*.model", "vocab.*", "tekken.json", "*.tiktoken")
TOKENIZER_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
SINGLE_FILES = ("model.safetensors", "pytorch_model.bin")  # transformers uses the first file that exists
# maps safetensors' dtype names to torch's
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
KNOWN_NUMBERS = DTYPES | {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
}
FOREIGN = (  # patterns for weight files that are not in transformers' format
    ("*.gguf", "the format of llama.cpp"),
    ("consolidated*", "the format of the model's authors"),
    ("adapter_model.*", "an adapter"),
    ("*.safetensors", "not named model.safetensors and not in a model.safetensors.index.json"),
    ("*.bin", "not named pytorch_model.bin and not in a pytorch_model.bin.index.json"),
    ("*.pt*", "a training checkpoint"),
    ("*.ckpt", "a training checkpoint"),
    ("*.h5", "the format of TensorFlow"),
    ("*.msgpack", "the format of Flax"),
    ("*.onnx", "the format of ONNX"),
)


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor's file, dtype (by its safetensors name) and shape."""

    file: Path
    dtype: str
    shape: tuple[int, ...]


def one_line(error: BaseException, limit: int = 300) -> str:
    """Return a library's error message in one line of at most `limit` characters."""
    text = " ".join(str(error).split())
    text = f"{type(error).__name__} {text}".strip() if isinstance(error, LookupError) or not text else text
    return text if len(text) <= limit else f"{text[:limit]} ..."


def some(names: Collection[str], limit: int = 5) -> str:
    """List up to `limit` names, and say how many more there are."""
    shown = sorted(names)[:limit]
    return ", ".join(shown) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def require_content(file: Path) -> None:
    """Raise `ValueError` if a file is unreadable, empty or a git-lfs pointer to a file not yet downloaded."""
    try:
        with file.open("rb") as opened:
            start = opened.read(len(GIT_LFS_POINTER))
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    if not start:
        raise ValueError(f"{file} is empty")
    if start == GIT_LFS_POINTER:
        raise ValueError(f"{file} is a git-lfs pointer, not the file itself: run `git lfs pull` in {file.parent}")


def read_json(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raises `ValueError` with the file and the reason if the file contains no
    object."""
    require_content(file)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON: {one_line(error)}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{file} must contain a JSON object, got {type(found).__name__}")
    return found


def weight_files(folder: Path) -> list[Path]:
    """Return the weight files of a model. Raises `ValueError` if there are no files or one is missing."""
    for name in SINGLE_FILES:
        index = folder / f"{name}.index.json"
        if (folder / name).exists() or (folder / name).is_symlink():
            return [folder / name]
        if index.exists():
            return _files_of_index(index)
    there = [file for pattern, _ in FOREIGN for file in folder.glob(pattern)]
    reasons = {file.name: reason for pattern, reason in reversed(FOREIGN) for file in folder.glob(pattern)}
    seen = f"; {there[0].name} is {reasons[there[0].name]}" if there else ""
    raise ValueError(f"{folder} has no weights: neither model.safetensors nor model.safetensors.index.json{seen}")


def _files_of_index(index: Path) -> list[Path]:
    weights = read_json(index).get("weight_map")
    if not isinstance(weights, dict) or not weights:
        raise ValueError(f"{index} must have a weight_map with a file for each tensor")
    names = sorted({str(name) for name in weights.values()})
    if outside := [name for name in names if Path(name).name != name]:
        raise ValueError(f"{index} may name only files in the same folder, got {outside[0]!r}")
    if missing := [name for name in names if not (index.parent / name).exists()]:
        raise ValueError(f"{index.parent} lacks {some(missing)} of the {len(names)} files that {index.name} names")
    return [index.parent / name for name in names]


def read_header(file: Path) -> dict[str, StoredTensor]:
    """Return a safetensors file's tensors, keyed by name. Raises `ValueError` if the file is truncated or damaged."""
    try:
        with safe_open(file, framework="numpy") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
            return {name: StoredTensor(file, one.get_dtype(), tuple(one.get_shape())) for name, one in slices.items()}
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{file} is truncated, damaged or not a safetensors file: {one_line(error)}") from None
