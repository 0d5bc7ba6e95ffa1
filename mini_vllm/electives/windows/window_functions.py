"""The seam of phase 12: functions that choose a sliding window's blocks, and the attention that reads them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mini_vllm.core.interfaces import WholeBlockPool

Tables = tuple[list[int], ...]  # a request's block table for each group of layers


class GroupPool(WholeBlockPool, Protocol):
    """The pool that supplies blocks for the tables of all groups."""

    @property
    def num_free_blocks(self) -> int:
        """Length of the free queue."""

    def is_free(self, block_id: int) -> bool:
        """Return whether a block is in the free queue. The null block is never in the queue."""


class AllocateGroups(Protocol):
    def __call__(
        self, tables: Tables, num_blocks: int, pool: GroupPool, pin: Callable[[list[int]], None] | None
    ) -> list[list[int]] | None: ...


class SlidingAttention(Protocol):
    """Phase 6's `paged_attention` with a window; only the runner imports torch."""

    def __call__(self, query: Any, key_cache: Any, value_cache: Any, batch: Any, scale: float, window: int) -> Any: ...


@dataclass(frozen=True, slots=True)
class WindowFunctions:
    """Phase 12, as used by the KV cache manager, the prefix cache and the runner."""

    free_outside_window: Callable[[list[int], int, int, int, GroupPool], None]
    allocate_groups: AllocateGroups
    find_common_hit: Callable[[Sequence[Sequence[int | None]], Sequence[int | None], int], Tables]
    sliding_attention: SlidingAttention


def require_window_functions(functions: WindowFunctions | None) -> WindowFunctions:
    """Return phase 12's `functions`, which a model with sliding windows needs. Raises `ValueError` if the phase is
    absent."""
    if functions is None:
        raise ValueError("a model with sliding windows needs phase 12 (sliding windows) in the lineup")
    return functions
