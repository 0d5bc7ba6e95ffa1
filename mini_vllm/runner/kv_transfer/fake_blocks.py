"""The fake model's blocks for a KV connector: its slots as tensors. Torch is imported by the first use."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mini_vllm.runner.fake_model_runner import FakeModelRunner

if TYPE_CHECKING:
    from torch import Tensor

    from mini_vllm.runner.kv_transfer.disk_store import DiskBlockStore


def fake_kv_caches(runner: FakeModelRunner) -> "Sequence[Tensor]":
    """Return the slots as one cache [blocks, block_size, 1, 1] over the same memory."""
    import torch

    return [torch.frombuffer(runner.slots, dtype=torch.int64).view(-1, runner.block_size, 1, 1)]


def fake_block_like(block_size: int) -> "Tensor":
    """Return a block [1, block_size, 1, 1] without content."""
    import torch

    return torch.empty((1, block_size, 1, 1), dtype=torch.int64, device="meta")


def fake_disk_store(path: str, max_bytes: int, block_size: int) -> "DiskBlockStore":
    """Return the fake model's blocks under `path`."""
    from mini_vllm.runner.kv_transfer.disk_store import DiskBlockStore

    return DiskBlockStore(Path(path) / "fake", max_bytes, fake_block_like(block_size))
