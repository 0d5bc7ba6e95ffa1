"""A block store that two threads use."""

from collections.abc import Sequence
from threading import Lock
from typing import Any

from mini_vllm.core.gates.connector import BlockStore


class SharedStore:
    """A `BlockStore` around one: with a step in flight the scheduler looks up while the worker saves."""

    def __init__(self, inner: BlockStore) -> None:
        self.inner = inner
        self._lock = Lock()

    def lookup(self, block_hashes: Sequence[bytes]) -> int:
        with self._lock:
            return self.inner.lookup(block_hashes)

    def get(self, block_hash: bytes) -> Any:
        with self._lock:
            return self.inner.get(block_hash)

    def put(self, block_hash: bytes, block: Any) -> None:
        with self._lock:
            self.inner.put(block_hash, block)
