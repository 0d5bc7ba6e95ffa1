"""The fake model's slots as tensors for a KV connector. Torch is imported on first use."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mini_vllm.runner.fake_model_runner import FakeModelRunner

if TYPE_CHECKING:
    from torch import Tensor

    from mini_vllm.runner.kv_transfer.disk_store import DiskBlockStore


def fake_kv_caches(runner: FakeModelRunner) -> "Sequence[Tensor]":
    """Return the slots as one cache [blocks, block_size, 1, 1] that shares their memory."""
    import torch

    return [torch.frombuffer(runner.slots, dtype=torch.int64).view(-1, runner.block_size, 1, 1)]


def fake_block_like(block_size: int) -> "Tensor":
    """Return an empty block [1, block_size, 1, 1] on the device `meta`."""
    import torch

    return torch.empty((1, block_size, 1, 1), dtype=torch.int64, device="meta")


def fake_disk_store(path: str, max_bytes: int, block_size: int) -> "DiskBlockStore":
    """Return a store under `path` for the fake model's blocks."""
    from mini_vllm.runner.kv_transfer.disk_store import DiskBlockStore

    return DiskBlockStore(Path(path) / "fake", max_bytes, fake_block_like(block_size))
