"""Which block holds which tokens of which group of layers; the hit that all groups share."""

from collections.abc import Mapping, Sequence

from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.interfaces import BlockPool, PrefixCache
from mini_vllm.core.request import Request
from mini_vllm.core.windows.window_functions import Tables, WindowFunctions


class GroupedPrefixCache:
    """A `PrefixCache` for groups of layers, with the block hashes of phase 4, `hashes`.

    `windows` has for each group how many tokens its attention reaches, the newest included; None is full attention,
    and comes first. `tables` are the block tables by request id, one per group; the KV cache manager maintains them.
    """

    def __init__(
        self,
        functions: WindowFunctions,
        hashes: PrefixCache,
        block_size: int,
        windows: Sequence[int | None],
        tables: Mapping[str, Tables],
    ) -> None:
        self.functions = functions
        self.hashes = hashes
        self.block_size = block_size
        self.windows = windows
        self.tables = tables
        self.num_query_tokens = self.num_hit_tokens = 0
        # Of equal blocks the one that was cached first is found: a dict keeps that order.
        self._blocks_of_hash: list[dict[bytes, dict[int, None]]] = [{} for _ in windows]
        self._place_of_block: dict[int, tuple[int, bytes]] = {}

    def update_block_hashes(self, request: Request) -> None:
        self.hashes.update_block_hashes(request)

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        return self.find_hit_of_each_group(request, request.num_tokens - 1)[0]

    def find_hit_of_each_group(self, request: Request, max_num_tokens: int) -> Tables:
        """Return the hit blocks of each group, equally many: a hit counts as far as every group has it."""
        self.update_block_hashes(request)
        block_hashes = request.block_hashes[: max_num_tokens // self.block_size]
        cached = [[self._find(group, one) for one in block_hashes] for group in range(len(self.windows))]
        return self.functions.find_common_hit(cached, self.windows, self.block_size)

    def _find(self, group: int, block_hash: bytes) -> int | None:
        blocks = self._blocks_of_hash[group].get(block_hash)
        return None if blocks is None else next(iter(blocks))

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        for block_id in block_ids:
            if block_id != NULL_BLOCK_ID:
                pool.touch(block_id)
        self.num_query_tokens += request.num_tokens
        self.num_hit_tokens += len(block_ids) * self.block_size

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.update_block_hashes(request)
        for group, table in enumerate(self.tables[request.request_id]):
            for index in range(num_cached_blocks, num_full_blocks):
                block_id, block_hash = table[index], request.block_hashes[index]
                if block_id != NULL_BLOCK_ID:
                    self._blocks_of_hash[group].setdefault(block_hash, {})[block_id] = None
                    self._place_of_block[block_id] = group, block_hash

    def evict(self, block_id: int) -> bool:
        place = self._place_of_block.pop(block_id, None)
        if place is None:
            return False
        group, block_hash = place
        blocks = self._blocks_of_hash[group][block_hash]
        del blocks[block_id]
        if not blocks:
            del self._blocks_of_hash[group][block_hash]
        return True

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        for block_id in block_ids:
            self.evict(block_id)

    def cached_blocks(self) -> dict[int, bytes]:
        return {block_id: block_hash for block_id, (_, block_hash) in self._place_of_block.items()}

    def hit_rate(self) -> float:
        return self.num_hit_tokens / self.num_query_tokens if self.num_query_tokens else 0.0
