"""Phase 10: keep K and V in a second tier of memory, and load them back.

The scheduler calls the connector while it plans; the worker moves the blocks before the step's forward pass.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mini_vllm.core.request import Request
from mini_vllm.core.step import KVConnectorOutput
from mini_vllm.electives.gates.connector import BlockStore, KVConnectorMetadata

if TYPE_CHECKING:
    from torch import Tensor


class HostBlockStore:
    """A `BlockStore` in host memory that holds at most `max_bytes`; it forgets the least recently used blocks first."""

    def __init__(self, max_bytes: int) -> None:
        raise NotImplementedError("Phase 10, task 1: store the arguments")

    def lookup(self, block_hashes: Sequence[bytes]) -> int:
        """Return how many of these blocks are stored before the first missing one, and mark those as just used.

        The first block counts as the most recently used, because the others are useless without it.
        """
        raise NotImplementedError("Phase 10, task 1: lookup")

    def get(self, block_hash: bytes) -> "Tensor | None":
        """Return a block, or None if it is not stored. This does not count as a use."""
        raise NotImplementedError("Phase 10, task 1: get")

    def put(self, block_hash: bytes, block: "Tensor") -> None:
        """Store a block as the most recently used. A block that is larger than the whole store is not stored."""
        raise NotImplementedError("Phase 10, task 1: put")


class BlockStoreConnector:
    """A `KVConnector` (the scheduler side) over a store. With `saves_ended` it also saves the blocks of requests that
    have ended."""

    def __init__(self, store: BlockStore, block_size: int, saves_ended: bool = True) -> None:
        raise NotImplementedError("Phase 10, task 2: store the arguments")

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Return a pair: how many tokens after the first `num_computed_tokens` are stored (whole blocks only), and
        False.

        Together with them, at most `num_tokens - 1` tokens count as computed: the last token is always computed here,
        never loaded. False means that the blocks are loaded within the step. This method is called again in every step
        while the request waits.
        """
        raise NotImplementedError("Phase 10, task 2: get_num_new_matched_tokens")

    def update_state_after_alloc(self, request: Request, block_ids: Sequence[int], num_external_tokens: int) -> None:
        """Record the blocks to load in this step, in order: those after the most recently reported prefix hit.

        `block_ids` is the whole table: hit blocks, blocks to load, blocks to compute.
        """
        raise NotImplementedError("Phase 10, task 3: update_state_after_alloc")

    def request_finished(self, request: Request, block_ids: Sequence[int]) -> bool:
        """Return whether the blocks of a request that ended must be held because the next step saves some of them.

        Aborted and failed requests are not saved. Everything else that was recorded about the request is forgotten.
        """
        raise NotImplementedError("Phase 10, task 4: request_finished")

    def request_preempted(self, request: Request, block_ids: Sequence[int], num_computed_tokens: int) -> None:
        """Record the blocks that a request is losing, so that they are saved before the next forward pass."""
        raise NotImplementedError("Phase 10, task 4: request_preempted")

    def build_connector_meta(self) -> KVConnectorMetadata:
        """Return the blocks that the worker side must load and save in the planned step, and forget them."""
        raise NotImplementedError("Phase 10, task 3: build_connector_meta")


class BlockStoreWorker:
    """A `KVConnectorWorker` that copies blocks between the tensors of the KV cache and a store.

    Each tensor in `kv_caches` is [blocks, block_size, kv_heads, head_dim]; a block in the store is [caches, ...].
    """

    def __init__(self, store: BlockStore, kv_caches: "Sequence[Tensor]") -> None:
        raise NotImplementedError("Phase 10, task 5: store the arguments")

    def start_step(self, metadata: KVConnectorMetadata) -> KVConnectorOutput:
        """Save and load the blocks of a step; report the saved requests and the blocks that are missing.

        A block freed by one request may be filled for another in the same step, so it is saved before anything is
        loaded into it. Blocks that are already stored are not copied. At the end, a request's first block counts as the
        most recently used.
        """
        raise NotImplementedError("Phase 10, task 5: start_step")
