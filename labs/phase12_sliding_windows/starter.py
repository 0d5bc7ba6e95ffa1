"""Phase 12: which blocks a sliding window needs, and the attention that reads them.

The KV cache manager calls the first four functions, and the runner calls the last one in every sliding layer.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mini_vllm.electives.windows.window_functions import GroupPool, Tables

if TYPE_CHECKING:
    from torch import Tensor

    from mini_vllm.runner.steps import FlatBatch


def free_outside_window(
    table: list[int], window: int, num_computed_tokens: int, block_size: int, pool: GroupPool
) -> None:
    """Free the blocks that the next token cannot reach, last one first, and replace them with the null block.

    The next token is number `num_computed_tokens`, counting from 0, and attends to `window` tokens, including itself.
    In each table the null blocks come first.
    """
    raise NotImplementedError("Phase 12, task 1: free_outside_window")


def allocate_groups(
    tables: Tables, num_blocks: int, pool: GroupPool, pin: Callable[[list[int]], None] | None
) -> list[list[int]] | None:
    """Extend every group's table to `num_blocks` blocks, in group order; extend all of them or none.

    Returns each group's new blocks. None means that the request was refused and nothing has changed. When a request is
    being admitted, the tables already contain its hits: call `pin(table)` for each table to take the hits from the free
    queue and hold them. `pin` is None if the tables are already held.
    """
    raise NotImplementedError("Phase 12, task 2: allocate_groups")


def find_sliding_hit(cached: Sequence[int | None], window: int, block_size: int) -> list[int]:
    """Return the block table of the longest hit for a layer with a window.

    For each prompt block, `cached` gives the id of a cached block with the same tokens and the same preceding tokens,
    or None. The token after the hit attends to the hit's last `window - 1` tokens. All blocks that hold these tokens,
    and in any case at least one block, must be cached; the null block replaces the blocks before them. A hit that
    reaches back to the first token may hold fewer than `window - 1` tokens.
    """
    raise NotImplementedError("Phase 12, task 3: find_sliding_hit")


def find_common_hit(cached: Sequence[Sequence[int | None]], windows: Sequence[int | None], block_size: int) -> Tables:
    """Return one table per group, all equally long, for the longest hit that all groups have in common.

    For each group, `cached` is as in `find_sliding_hit`; `windows` contains None for full attention, which comes first,
    and at most one window size. Full attention needs every block from the first one onwards.
    """
    raise NotImplementedError("Phase 12, task 4: find_common_hit")


def sliding_attention(
    query: "Tensor", key_cache: "Tensor", value_cache: "Tensor", batch: "FlatBatch", scale: float, window: int
) -> "Tensor":
    """Attend from each token to its request's last `window` tokens, up to and including itself; return [T, heads,
    head_dim].

    query [T, heads, head_dim]; caches [blocks, block_size, kv_heads, head_dim], already holding the step's own K and V.
    Query head h reads K/V head `h // (heads // kv_heads)`. The contents of the null block must not affect the result.
    """
    raise NotImplementedError("Phase 12, task 5: sliding_attention")
