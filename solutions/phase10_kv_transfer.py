"""Phase 10, reference: store K and V in a second memory, and load them back.

vLLM: `LRUOffloadingManager` in `v1/kv_offload/lru_manager.py`; both sides of the connector are in
`distributed/kv_transfer/kv_connector/v1/offloading_connector.py`.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import chain, takewhile
from typing import TYPE_CHECKING

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import KVConnectorOutput
from mini_vllm.electives.gates.connector import BlockStore, BlockTransfer, KVConnectorMetadata

if TYPE_CHECKING:
    from torch import Tensor


class HostBlockStore:
    """A `BlockStore` in host memory that holds at most `max_bytes`; it forgets the least recently used blocks first."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._blocks: OrderedDict[bytes, Tensor] = OrderedDict()  # the next block to be evicted comes first

    def lookup(self, block_hashes: Sequence[bytes]) -> int:
        """Return how many of these blocks are stored before the first missing one, and mark those as just used.

        The first block counts as the most recently used, because the others are useless without it.
        """
        found = list(takewhile(self._blocks.__contains__, block_hashes))
        for block_hash in reversed(found):
            self._blocks.move_to_end(block_hash)
        return len(found)

    def get(self, block_hash: bytes) -> "Tensor | None":
        """Return a block, or None if it is not stored. This does not count as a use."""
        return self._blocks.get(block_hash)

    def put(self, block_hash: bytes, block: "Tensor") -> None:
        """Store a block as the most recently used. A block that is larger than the whole store is not stored."""
        if block_hash in self._blocks:
            self._blocks.move_to_end(block_hash)
        elif block.nbytes <= self.max_bytes:
            while self.num_bytes + block.nbytes > self.max_bytes:
                self.num_bytes -= self._blocks.popitem(last=False)[1].nbytes
            self._blocks[block_hash] = block
            self.num_bytes += block.nbytes


class BlockStoreConnector:
    """A `KVConnector` (the scheduler side) over a store. With `saves_ended` it also saves the blocks of requests that
    have ended."""

    def __init__(self, store: BlockStore, block_size: int, saves_ended: bool = True) -> None:
        self.store = store
        self.block_size = block_size
        self.saves_ended = saves_ended
        self._first_external: dict[str, int] = {}
        self._metadata = KVConnectorMetadata()

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Return a pair: how many tokens after the first `num_computed_tokens` are stored (whole blocks only), and
        False.

        Together with them, at most `num_tokens - 1` tokens count as computed: the last token is always computed here,
        never loaded. False means that the blocks are loaded within the step. This method is called again in every step
        while the request waits.
        """
        first, end = num_computed_tokens // self.block_size, (request.num_tokens - 1) // self.block_size
        self._first_external[request.request_id] = first
        return self.store.lookup(request.block_hashes[first:end]) * self.block_size, False

    def update_state_after_alloc(self, request: Request, block_ids: Sequence[int], num_external_tokens: int) -> None:
        """Record the blocks to load in this step, in order: those after the most recently reported prefix hit.

        `block_ids` is the whole table: hit blocks, blocks to load, blocks to compute.
        """
        first = self._first_external.pop(request.request_id, 0)
        end = first + num_external_tokens // self.block_size
        if end > first:
            loads = map(BlockTransfer, request.block_hashes[first:end], block_ids[first:end])
            self._metadata.loads[request.request_id] = list(loads)

    def request_finished(self, request: Request, block_ids: Sequence[int]) -> bool:
        """Return whether the blocks of a request that ended must be held because the next step saves some of them.

        Aborted and failed requests are not saved. Everything else that was recorded about the request is forgotten.
        """
        self._first_external.pop(request.request_id, None)  # it may have been looked up but never admitted
        has_ended_well = request.status in (RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_LENGTH_CAPPED)
        return self.saves_ended and has_ended_well and self._save(request, block_ids, request.num_computed_tokens)

    def request_preempted(self, request: Request, block_ids: Sequence[int], num_computed_tokens: int) -> None:
        """Record the blocks that a request is losing, so that they are saved before the next forward pass."""
        self._save(request, block_ids, num_computed_tokens)

    def build_connector_meta(self) -> KVConnectorMetadata:
        """Return the blocks that the worker side must load and save in the planned step, and forget them."""
        metadata, self._metadata = self._metadata, KVConnectorMetadata()
        return metadata

    def _save(self, request: Request, block_ids: Sequence[int], num_computed_tokens: int) -> bool:
        # The newest token may be sampled but not yet computed, or computed in a step that has not finished.
        num_full_blocks = min(num_computed_tokens, request.num_tokens - 1) // self.block_size
        block_hashes = request.block_hashes[:num_full_blocks]
        if self.store.lookup(block_hashes) == len(block_hashes):
            return False
        # Tail first: if the store cannot hold all of them, the blocks saved last stay, and a tail by itself is useless.
        self._metadata.saves[request.request_id] = list(map(BlockTransfer, block_hashes, block_ids))[::-1]
        return True


class BlockStoreWorker:
    """A `KVConnectorWorker` that copies blocks between the tensors of the KV cache and a store.

    Each tensor in `kv_caches` is [blocks, block_size, kv_heads, head_dim]; a block in the store is [caches, ...].
    """

    def __init__(self, store: BlockStore, kv_caches: "Sequence[Tensor]") -> None:
        self.store = store
        self.kv_caches = kv_caches

    def start_step(self, metadata: KVConnectorMetadata) -> KVConnectorOutput:
        """Save and load the blocks of a step; report the saved requests and the blocks that are missing.

        A block freed by one request may be filled for another in the same step, so it is saved before anything is
        loaded into it. Blocks that are already stored are not copied. At the end, a request's first block counts as the
        most recently used.
        """
        import torch

        saved: dict[bytes, Tensor] = {}
        for block_hash, block_id in chain(*metadata.saves.values()):
            if not self.store.lookup([block_hash]):
                saved[block_hash] = torch.stack([cache[block_id] for cache in self.kv_caches]).cpu()
        invalid: set[int] = set()
        for block_hash, block_id in chain(*metadata.loads.values()):
            block = self.store.get(block_hash)
            if block is None:
                invalid.add(block_id)
            else:
                for cache, part in zip(self.kv_caches, block, strict=True):
                    cache[block_id] = part
        # After the loads: a save may evict a block that this step loads from the store.
        for block_hash, saved_block in saved.items():
            self.store.put(block_hash, saved_block)
        for transfers in metadata.saves.values():
            self.store.lookup([transfer.block_hash for transfer in reversed(transfers)])
        return KVConnectorOutput(finished_sending=list(metadata.saves), invalid_block_ids=frozenset(invalid))
