"""The seam of KV transfers: what a connector tells the scheduler. (vLLM: `KVConnectorBase_V1`, its scheduler side.)"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, Protocol

from mini_vllm.core.request import Request
from mini_vllm.core.step import KVConnectorOutput


class BlockTransfer(NamedTuple):
    """A block of the KV cache, and the hash of its tokens, under which it lies elsewhere."""

    block_hash: bytes
    block_id: int


@dataclass(slots=True)
class KVConnectorMetadata:
    """What the worker side is to do in one step: blocks to load and to save, by request id."""

    loads: dict[str, list[BlockTransfer]] = field(default_factory=dict)
    saves: dict[str, list[BlockTransfer]] = field(default_factory=dict)


class KVConnector(Protocol):
    """K and V that lie elsewhere: in a different process, on disk, in host memory."""

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Return how many tokens after the first `num_computed_tokens` lie elsewhere, and whether loading takes steps.

        Not whole prompts: the last token is always computed here. None: not known yet, ask again in the next step.
        """

    def update_state_after_alloc(self, request: Request, block_ids: Sequence[int], num_external_tokens: int) -> None:
        """The request has its block table now; the `num_external_tokens` after its prefix hit are to be loaded."""

    def request_finished(self, request: Request, block_ids: Sequence[int]) -> bool:
        """Return whether the blocks of an ended request must be held until they have been sent."""

    def request_preempted(self, request: Request, block_ids: Sequence[int], num_computed_tokens: int) -> None:
        """A request loses its blocks. Until the next forward pass they hold what it has computed."""

    def build_connector_meta(self) -> KVConnectorMetadata:
        """Return what the worker side is to do in the step that was planned, once."""


class KVConnectorWorker(Protocol):
    """The worker side: it moves K and V. (vLLM: `start_load_kv`, `wait_for_save` and `get_finished`.)"""

    def start_step(self, metadata: KVConnectorMetadata) -> KVConnectorOutput:
        """Save and load the blocks of a step, before its forward pass; report what was sent and what was lost."""


class BlockStore(Protocol):
    """Blocks by the hash of their tokens; a block is a tensor [caches, block_size, kv_heads, head_dim].

    `caches` counts the layers twice, for K and V. What a store has it may lose at any time.
    """

    def lookup(self, block_hashes: Sequence[bytes]) -> int:
        """Return how many of these blocks are stored, up to the first that is not; they count as used now."""

    def get(self, block_hash: bytes) -> Any:
        """Return a block; None if it is not there. Then `lookup` does not find it any more either."""

    def put(self, block_hash: bytes, block: Any) -> None:
        """Store a block on the host. Others are forgotten to make room for it."""


@dataclass(frozen=True, slots=True)
class KVTransferFunctions:
    """Phase 10 as the engine uses it.

    `make_host_store` takes a maximum of bytes, `make_connector` a store, the block size and whether blocks of ended
    requests are saved, `make_worker` a store and the tensors of the KV cache [blocks, block_size, kv_heads, head_dim].
    """

    make_host_store: Callable[[int], BlockStore]
    make_connector: Callable[[BlockStore, int, bool], KVConnector]
    make_worker: Callable[[BlockStore, Sequence[Any]], KVConnectorWorker]


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
