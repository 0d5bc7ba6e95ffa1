"""Stand-ins for the phases that a learner's code calls. They are no secret.

They keep the contracts of `mini_vllm/core/interfaces.py` and decide differently from vLLM on purpose, so that none of
them answers what another phase is asked: other blocks, other victims, other shares.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import BlockPool
from mini_vllm.core.request import Request

MAX_HIT_BLOCKS = 2


@dataclass
class Memory:
    """For phase 2: hands out the most recently freed block, and finds at most some blocks of a prefix, mostly two."""

    block_size: int
    free_blocks: list[int]
    tables: dict[str, list[int]] = field(default_factory=dict)
    known: dict[tuple[int, ...], int] = field(default_factory=dict)
    freed: list[tuple[str, int]] = field(default_factory=list)
    max_hit_blocks: int = MAX_HIT_BLOCKS

    @property
    def num_usable_blocks(self) -> int:
        return len(self.free_blocks) + len(self.ref_counts())

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_blocks)

    def get_computed_blocks(self, request: Request) -> list[int]:
        hits: list[int] = []
        for prefix in self._prefixes(request):
            if prefix not in self.known or len(prefix) >= request.num_tokens:
                break
            hits.append(self.known[prefix])
        return hits

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        table = self.tables.get(request.request_id, list(hit_blocks))
        end = request.num_computed_tokens + len(hit_blocks) * self.block_size + num_new_tokens
        num_more = max(0, cdiv(end + num_lookahead_tokens, self.block_size) - len(table))
        left = [block_id for block_id in self.free_blocks if block_id not in hit_blocks]
        if num_more > len(left):
            return None
        self.free_blocks = left
        taken = [self.free_blocks.pop() for _ in range(num_more)]
        self.tables[request.request_id] = table = [*table, *taken]
        self.known = {prefix: block_id for prefix, block_id in self.known.items() if block_id not in taken}
        for index, prefix in enumerate(self._prefixes(request)):
            if len(prefix) <= end:
                self.known[prefix] = table[index]
        return taken

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.freed.append((request.request_id, num_computed_tokens))
        table = self.tables.pop(request.request_id, [])
        self.free_blocks += [block_id for block_id in table if block_id not in self.ref_counts()]

    def block_ids(self, request_id: str) -> list[int]:
        return self.tables.get(request_id, [])

    def free_block_ids(self) -> list[int]:
        return list(self.free_blocks)

    def ref_counts(self) -> dict[int, int]:
        return dict(Counter(block_id for table in self.tables.values() for block_id in table))

    def state(self) -> dict[str, Any]:
        """Return what a call may have changed."""
        tables = {name: len(table) for name, table in sorted(self.tables.items())}
        return {"blocks held": tables, "free": len(self.free_blocks), "freed": self.freed}

    def _prefixes(self, request: Request) -> list[tuple[int, ...]]:
        tokens, size = request.all_token_ids, self.block_size
        num_full = min(self.max_hit_blocks, len(tokens) // size)
        return [tuple(tokens[: number * size]) for number in range(1, num_full + 1)]


class ReservedMemory(Memory):
    """The same, full until a request was freed; from then on the last blocks of all others have room."""

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        return [] if self.freed else None


@dataclass
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
