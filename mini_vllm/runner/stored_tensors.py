"""Reads the tensors of a model's weight files: either only their shapes, or their values too."""

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from mini_vllm.runner.model_files import KNOWN_NUMBERS, StoredTensor, read_header, require_content, weight_files


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Return the headers of a folder's tensors, keyed by name.

    Raises `ValueError` with the file and reason if a header is unreadable.
    """
    found: dict[str, StoredTensor] = {}
    for file in weight_files(folder):
        require_content(file)
        for name, tensor in _read_any_header(file).items():
            if name in found:
                raise ValueError(f"{file} contains {name}, which is also in {found[name].file.name}")
            found[name] = tensor
    return found


def without_numbers(stored: StoredTensor) -> torch.Tensor:
    """Return a tensor of this shape and dtype that uses no memory."""
    return torch.empty(stored.shape, dtype=getattr(torch, KNOWN_NUMBERS[stored.dtype]), device="meta")


def load_pickled(file: Path, device: str) -> dict[str, torch.Tensor]:
    """Return the tensors of a `.bin` file. Only tensors are unpickled, so none of the file's code runs.

    Raises `ValueError` if the file contains other objects or is damaged.
    """
    try:
        found = torch.load(file, map_location=device, weights_only=True)
    except Exception as error:  # a damaged file may raise any error
        raise ValueError(
            f"{file} is damaged, or contains objects other than tensors, which could run code: save it as "
            "model.safetensors"
        ) from error
    if not isinstance(found, dict) or not all(
        isinstance(name, str) and isinstance(one, torch.Tensor) and one.layout is torch.strided
        for name, one in found.items()
    ):
        raise ValueError(f"{file} must contain a dictionary of named, non-sparse tensors")
    return found


def opened_tensors(folder: Path) -> dict[str, Any]:
    """Return a folder's tensors, keyed by name; transformers reads tensors in safetensors files later, one by one."""
    found: dict[str, Any] = {}
    for file in weight_files(folder):
        if file.suffix == ".bin":
            found |= load_pickled(file, "cpu")
        else:
            opened: Any = safe_open(file, framework="pt")
            found |= {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
    return found


def _read_any_header(file: Path) -> dict[str, StoredTensor]:
    if file.suffix != ".bin":
        return read_header(file)
    names = {getattr(torch, dtype): name for name, dtype in KNOWN_NUMBERS.items()}
    pickled = load_pickled(file, "meta")
    return {
        name: StoredTensor(file, names.get(one.dtype, str(one.dtype)), tuple(one.shape))
        for name, one in pickled.items()
    }
