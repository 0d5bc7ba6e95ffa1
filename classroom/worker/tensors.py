"""Tensors and the flat batch as plain data. Used only where torch is loaded already."""

import base64
import math
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from mini_vllm.runner.steps import FlatBatch

__all__ = ["FlatBatch", "Tensor", "pack_flat_batch", "pack_tensor", "unpack_flat_batch", "unpack_tensor"]

DTYPES = {"float32": torch.float32, "float64": torch.float64, "int64": torch.int64, "bool": torch.bool}


def pack_tensor(tensor: Tensor) -> list[Any]:
    """Return [dtype, shape, bytes in base64]. Raises `TypeError` for other kinds of numbers."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name == "int32":
        tensor, name = tensor.to(torch.int64), "int64"
    if name not in DTYPES:
        raise TypeError(f"a tensor of {name} cannot be sent")
    content = tensor.detach().cpu().contiguous().reshape(-1).numpy().tobytes()
    return [name, list(tensor.shape), base64.b64encode(content).decode()]


def unpack_tensor(packed: Any) -> Tensor:
    """The reverse. Raises `ValueError` if the parts do not fit together."""
    name, shape, text = packed
    dtype = DTYPES[name]
    if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("a tensor's shape must be sizes")
    content = base64.b64decode(text, validate=True)
    if len(content) != math.prod(shape) * torch.empty((), dtype=dtype).element_size():
        raise ValueError("a tensor's bytes do not fit its shape")
    return (
        torch.frombuffer(bytearray(content), dtype=dtype).reshape(shape) if content else torch.empty(shape, dtype=dtype)
    )


def pack_flat_batch(batch: FlatBatch) -> list[Any]:
    """Return the batch's fields in order, tensors packed."""
    values = [getattr(batch, field.name) for field in fields(batch) if field.init]
    return [pack_tensor(value) if isinstance(value, Tensor) else value for value in values]


def unpack_flat_batch(packed: Any) -> FlatBatch:
    """The reverse. Raises `ValueError`."""
    *tensors, query_lens, seq_lens, block_size = packed
    *names, _, _, _ = (field.name for field in fields(FlatBatch) if field.init)
    unpacked = {name: unpack_tensor(part) for name, part in zip(names, tensors, strict=True)}
    query_lens, seq_lens = ([int(size) for size in sizes] for sizes in (query_lens, seq_lens))
    return FlatBatch(**unpacked, query_lens=query_lens, seq_lens_cpu=seq_lens, block_size=int(block_size))
