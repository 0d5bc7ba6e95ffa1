"""The seam of KV transfers: connectors, workers and stores. (vLLM: the scheduler side of `KVConnectorBase_V1`.)"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, Protocol

from mini_vllm.core.request import Request
from mini_vllm.core.step import KVConnectorOutput


class BlockTransfer(NamedTuple):
    """A KV cache block, and the hash under which it is stored outside the cache."""

    block_hash: bytes
    block_id: int


@dataclass(slots=True)
class KVConnectorMetadata:
    """The worker side's job for one step: the blocks to load and to save, keyed by request id."""

    loads: dict[str, list[BlockTransfer]] = field(default_factory=dict)
    saves: dict[str, list[BlockTransfer]] = field(default_factory=dict)


class KVConnector(Protocol):
    """Finds K and V stored outside the KV cache: in a different process, on disk, or in host memory."""

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Return how many tokens after the first `num_computed_tokens` can be loaded, and whether loading takes several
        steps.

        The last token of a prompt is never included, because it is always computed locally. None means that the answer
        is not known yet: call again in the next step.
        """

    def update_state_after_alloc(self, request: Request, block_ids: Sequence[int], num_external_tokens: int) -> None:
        """Receive the block table of a request. The `num_external_tokens` tokens after the request's prefix hit must be
        loaded."""

    def request_finished(self, request: Request, block_ids: Sequence[int]) -> bool:
        """Return whether the blocks of an ended request must stay allocated until they have been sent."""

    def request_preempted(self, request: Request, block_ids: Sequence[int], num_computed_tokens: int) -> None:
        """Receive the blocks of a preempted request. The blocks hold the request's K and V until the next forward
        pass."""

    def build_connector_meta(self) -> KVConnectorMetadata:
        """Return the worker side's job for the planned step. Called once per step."""


class KVConnectorWorker(Protocol):
    """The worker side, which moves K and V. (vLLM: `start_load_kv`, `wait_for_save` and `get_finished`.)"""

    def start_step(self, metadata: KVConnectorMetadata) -> KVConnectorOutput:
        """Save and load a step's blocks before its forward pass; report the finished transfers and lost blocks."""


class BlockStore(Protocol):
    """Stores blocks keyed by the hash of their tokens; a block is a tensor [caches, block_size, kv_heads, head_dim].

    `caches` counts each layer twice, once for K and once for V. A store may lose a block at any time.
    """

    def lookup(self, block_hashes: Sequence[bytes]) -> int:
        """Return how many of these blocks are stored, up to the first missing one. This marks the blocks as recently
        used."""

    def get(self, block_hash: bytes) -> Any:
        """Return a block, or None if it is missing. `lookup` no longer finds a missing block."""

    def put(self, block_hash: bytes, block: Any) -> None:
        """Store a block on the host. Other blocks may be dropped to make room."""


@dataclass(frozen=True, slots=True)
class KVTransferFunctions:
    """Phase 10 as the engine uses it.

    `make_host_store` takes a maximum number of bytes. `make_connector` takes a store, the block size, and whether to
    save the blocks of ended requests. `make_worker` takes a store and the tensors of the KV cache [blocks, block_size,
    kv_heads, head_dim].
    """

    make_host_store: Callable[[int], BlockStore]
    make_connector: Callable[[BlockStore, int, bool], KVConnector]
    make_worker: Callable[[BlockStore, Sequence[Any]], KVConnectorWorker]


class SharedStore:
    """A `BlockStore` with a lock, because the scheduler may look up blocks while the worker saves others."""

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
