"""Stores each block on disk in a safetensors file named after the block's hash."""

import logging
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from zlib import crc32

import torch
from safetensors.torch import save
from torch import Tensor

SUFFIX = ".safetensors"
UNFINISHED = ".tmp"
OURS = re.compile(r"[0-9a-f]{64}(\.safetensors|\.[0-9a-f]+\.tmp)")
MAX_HEADER = 4096
SECONDS_BETWEEN_LOOKS, SECONDS_OF_A_WRITE = 1.0, 60.0
logger = logging.getLogger(__name__)


class DiskBlockStore:
    """A `BlockStore` in a folder of at most `max_bytes`; it deletes the least recently used files first.

    All blocks have the shape and the dtype of `like`. Files are written under a temporary name, then renamed, so a
    crash never leaves a partial block. A file whose contents do not match its name counts as missing and is deleted.
    Files with other names are left alone. Several engines may share a folder: each counts all files once a second, and
    may exceed the limit between two counts. If the disk is full, writing stops and one line is added to the log. (vLLM:
    `ExampleConnector`.)
    """

    def __init__(self, folder: Path, max_bytes: int, like: Tensor) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.max_bytes = max_bytes
        self.like = like
        self.num_bytes_of: dict[str, int] = {}  # in order of last use, so the first file is the next one to delete
        self._unfinished = f".{token_hex(4)}{UNFINISHED}"  # unique to this store
        self._why_not_written = ""  # logged only once, not for each block
        self._next_look = 0.0
        self._make_room(0)

    def lookup(self, block_hashes: Sequence[bytes]) -> int:
        names = [block_hash.hex() + SUFFIX for block_hash in block_hashes]
        num_found = next((place for place, name in enumerate(names) if name not in self.num_bytes_of), len(names))
        for name in reversed(names[:num_found]):
            self.num_bytes_of[name] = self.num_bytes_of.pop(name)
        return num_found

    def get(self, block_hash: bytes) -> Tensor | None:
        path = self.folder / (block_hash.hex() + SUFFIX)
        try:
            with path.open(
                "rb"
            ) as file:  # read rather than mapped, because truncating a mapped file would kill the process reading it
                content = bytearray(file.read(self.like.nbytes + MAX_HEADER))
            block = torch.frombuffer(content[-self.like.nbytes :], dtype=self.like.dtype).view(self.like.shape)
            os.utime(path)  # later engines sort the files by modification time
            is_whole = content == content_of(path, block)
        except (OSError, ValueError, RuntimeError):  # torch raises the last two exceptions if a file is too short
            is_whole = False
        if is_whole:
            return block
        self._delete(path.name)
        return None

    def put(self, block_hash: bytes, block: Tensor) -> None:
        path = self.folder / (block_hash.hex() + SUFFIX)
        if path.name in self.num_bytes_of:
            return
        content = content_of(path, block)
        if len(content) > self.max_bytes:
            return
        self._make_room(len(content))
        unfinished = path.with_suffix(self._unfinished)
        try:
            unfinished.write_bytes(content)
            os.replace(unfinished, path)
        except OSError as error:
            self._delete(unfinished.name)
            if str(error) != self._why_not_written:
                logger.warning("no block is written to %s, because of %s: later prompts compute theirs", path, error)
            self._why_not_written = str(error)
            return
        self._why_not_written = ""
        self.num_bytes_of[path.name] = len(content)

    def _make_room(self, num_bytes: int) -> None:
        if time.monotonic() >= self._next_look:
            self._look()
        while self.num_bytes_of and sum(self.num_bytes_of.values()) + num_bytes > self.max_bytes:
            self._delete(next(iter(self.num_bytes_of)))

    def _look(self) -> None:
        """Update the list of files after changes by other engines, and delete unfinished files left by crashes."""
        self._next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
        found = list[tuple[float, str, int]]()
        with suppress(OSError):  # the folder, or any file in it, may disappear between two checks
            for entry in os.scandir(self.folder):
                if OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    with suppress(OSError):
                        found.append((entry.stat().st_mtime, entry.name, entry.stat().st_size))
        sizes = {name: size for _, name, size in sorted(found)}
        self.num_bytes_of = {name: sizes[name] for name in self.num_bytes_of if name in sizes} | sizes
        for changed, name, _ in found:
            if name.endswith(UNFINISHED) and changed < time.time() - SECONDS_OF_A_WRITE:
                self._delete(name)

    def _delete(self, name: str) -> None:
        self.num_bytes_of.pop(name, None)
        with suppress(OSError):  # also forget files that could not be deleted
            (self.folder / name).unlink()


def content_of(path: Path, block: Tensor) -> bytes:
    """Return the contents of a block's file. The checksum includes the name, so that swapped files are detected."""
    numbers = block.contiguous().view(torch.uint8).numpy().tobytes()
    return save({"kv": block}, {"crc32": str(crc32(numbers, crc32(path.name.encode())))})
