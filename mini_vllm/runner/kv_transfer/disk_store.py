"""Blocks on disk: one file of safetensors each, named after the hash of the block."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

SUFFIX = ".safetensors"
UNFINISHED = ".tmp"


class DiskBlockStore:
    """A `BlockStore` in a folder of at most `max_bytes`. The files that were unused for longest are deleted first.

    All blocks have the shape and the dtype of `like`.
    A file appears whole or not at all, whenever the process dies: it is written under another name, then renamed. One
    that is damaged all the same has a wrong checksum; it counts as missing and is deleted. The folder belongs to one
    engine at a time. Writing stops without an error when the disk is full. (vLLM: `ExampleConnector`.)
    """

    def __init__(self, folder: Path, max_bytes: int, like: Tensor) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.max_bytes = max_bytes
        self.like = like
        for path in folder.glob(f"*{UNFINISHED}"):
            path.unlink()
        by_age = sorted((entry.stat().st_mtime, entry.name, entry.stat().st_size) for entry in os.scandir(folder))
        # A dict keeps the order of insertion: the first one is the next to go.
        self.num_bytes_of = {name: size for _, name, size in by_age if name.endswith(SUFFIX)}

    def lookup(self, block_hashes: Sequence[bytes]) -> int:
        names = [block_hash.hex() + SUFFIX for block_hash in block_hashes]
        num_found = next((place for place, name in enumerate(names) if name not in self.num_bytes_of), len(names))
        for name in reversed(names[:num_found]):
            self.num_bytes_of[name] = self.num_bytes_of.pop(name)
        return num_found

    def get(self, block_hash: bytes) -> Tensor | None:
        path = self.folder / (block_hash.hex() + SUFFIX)
        try:
            with safe_open(path, "pt") as file:
                block: Tensor = file.get_tensor("kv")
                is_whole = block.shape == self.like.shape and block.dtype == self.like.dtype
                is_whole = is_whole and (file.metadata() or {}).get("crc32") == checksum(block)
            os.utime(path)  # the next engine goes by the times of the files
        except (OSError, SafetensorError):
            is_whole = False
        if is_whole:
            return block
        self._delete(path.name)
        return None

    def put(self, block_hash: bytes, block: Tensor) -> None:
        path = self.folder / (block_hash.hex() + SUFFIX)
        if path.name in self.num_bytes_of:
            return
        content = save({"kv": block}, {"crc32": checksum(block)})
        if len(content) > self.max_bytes:
            return
        while sum(self.num_bytes_of.values()) + len(content) > self.max_bytes:
            self._delete(next(iter(self.num_bytes_of)))
        try:
            path.with_suffix(UNFINISHED).write_bytes(content)
            os.replace(path.with_suffix(UNFINISHED), path)
        except OSError:
            self._delete(path.with_suffix(UNFINISHED).name)
            return
        self.num_bytes_of[path.name] = len(content)

    def _delete(self, name: str) -> None:
        self.num_bytes_of.pop(name, None)
        with suppress(OSError):  # what cannot be deleted is forgotten all the same
            (self.folder / name).unlink()


def checksum(block: Tensor) -> str:
    return str(crc32(block.contiguous().view(torch.uint8).numpy().tobytes()))
