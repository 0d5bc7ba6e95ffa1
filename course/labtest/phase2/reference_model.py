"""A slow block pool: one list of free blocks, one list per request. The random tests compare with it.

Nothing is counted on the way: the holders of a block are found by searching all tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class ListPool:
    """Block tables and the free blocks, front first."""

    num_gpu_blocks: int
    block_size: int
    free_blocks: list[int] = field(default_factory=list)
    tables: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free_blocks = list(range(1, self.num_gpu_blocks))

    def num_holders(self, block_id: int) -> int:
        return sum(table.count(block_id) for table in self.tables.values())

    def holders(self) -> dict[int, int]:
        """Return the number of holders of every held block."""
        counts = {block_id: self.num_holders(block_id) for block_id in range(self.num_gpu_blocks)}
        return {block_id: count for block_id, count in counts.items() if count}

    def usage(self) -> float:
        """Return the share of the blocks that requests hold; the null block does not count."""
        return len(self.holders()) / (self.num_gpu_blocks - 1)

    def allocate(
        self, name: str, num_computed: int, num_known: int, num_new: int, hits: Sequence[int], num_lookahead: int
    ) -> tuple[list[int] | None, list[str]]:
        """Return the new blocks (None: refused) and the calls of the prefix cache."""
        admitted = name not in self.tables
        table = list(hits) if admitted else self.tables[name]
        free_after_hits = [block_id for block_id in self.free_blocks if block_id not in hits]
        num_before = num_computed + len(hits) * self.block_size
        table_after = list(table)
        while len(table_after) * self.block_size < num_before + num_new + num_lookahead:
            if not free_after_hits:
                return None, []
            table_after.append(free_after_hits.pop(0))
        new_blocks = table_after[len(table) :]
        self.free_blocks, self.tables[name] = free_after_hits, table_after
        calls = [f"pin({name}, {list(hits)})"] if admitted else []
        calls += [f"evict({block_id})" for block_id in new_blocks]
        full_before = self._num_full(num_before)
        full_after = self._num_full(min(num_before + num_new, num_known))
        if full_after > full_before:
            calls.append(f"cache_full_blocks({name}, {table_after[:full_after]}, {full_before}, {full_after})")
        return new_blocks, calls

    def free(self, name: str, num_computed: int) -> list[str]:
        """Return the calls of the prefix cache."""
        table = self.tables.pop(name, [])
        self.free_blocks += [block_id for block_id in reversed(table) if not self.num_holders(block_id)]
        unfinished = table[self._num_full(num_computed) :]
        return [f"drop_uncomputed({sorted(unfinished)})"] if unfinished else []

    def _num_full(self, num_tokens: int) -> int:
        return num_tokens // self.block_size
