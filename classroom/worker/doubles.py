"""Stand-ins for the phases that a learner's code calls. They are no secret.

They keep the contracts of `mini_vllm/core/interfaces.py` and decide differently from vLLM on purpose, so that none of
them answers what another phase is asked: other blocks, other victims, other shares.
"""

from collections.abc import Sequence
from typing import Any

from mini_vllm.core.interfaces import BlockPool
from mini_vllm.core.request import Request

MAX_HIT_BLOCKS = 2


class CacheLog:
    """For phase 4: finds at most two blocks of a prefix, those cached last, and records its calls.

    Blocks may be cached or dropped in any number of calls; evictions and pins have an order.
    """

    def __init__(self, block_size: int = 1) -> None:
        self.block_size = block_size
        self.known: dict[tuple[int, ...], int] = {}
        self._forget_calls()

    def _forget_calls(self) -> None:
        self.evicted: list[int] = []
        self.pinned: list[list[int]] = []
        self.cached: set[int] = set()
        self.dropped: set[int] = set()

    def update_block_hashes(self, request: Request) -> None:
        return None

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        hits: list[int] = []
        for prefix, block_id in sorted(self.known.items(), key=lambda item: len(item[0])):
            if len(prefix) < request.num_tokens and tuple(request.all_token_ids[: len(prefix)]) == prefix:
                hits.append(block_id)
        return hits

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        self.pinned.append([int(block_id) for block_id in block_ids])
        for block_id in block_ids:
            pool.touch(block_id)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.cached |= set(range(num_cached_blocks, num_full_blocks)) or {-1}  # no block: a call without need
        for index in range(num_cached_blocks, min(num_full_blocks, MAX_HIT_BLOCKS)):
            self.known[tuple(request.all_token_ids[: (index + 1) * self.block_size])] = block_ids[index]

    def evict(self, block_id: int) -> bool:
        self.evicted.append(int(block_id))
        return self._forget(block_id)

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        self.dropped |= {int(block_id) for block_id in block_ids}
        for block_id in block_ids:
            self._forget(block_id)

    def cached_blocks(self) -> dict[int, bytes]:
        return dict.fromkeys(self.known.values(), b"")

    def hit_rate(self) -> float:
        return 0.0

    def state(self) -> dict[str, Any]:
        """Return the calls since the last time."""
        calls = {"evict": self.evicted, "pin": self.pinned, "cache": self.cached, "drop": self.dropped}
        self._forget_calls()
        return calls

    def _forget(self, block_id: int) -> bool:
        is_known = block_id in self.known.values()
        self.known = {prefix: other for prefix, other in self.known.items() if other != block_id}
        return is_known


class TouchLog:
    """For phase 2 as phase 4 uses it: records which blocks are touched."""

    def __init__(self) -> None:
        self.touched: list[int] = []

    def touch(self, block_id: int) -> None:
        self.touched.append(int(block_id))

    def state(self) -> list[int]:
        return sorted(self.touched)
