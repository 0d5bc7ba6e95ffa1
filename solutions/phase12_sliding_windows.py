"""Phase 12, reference: chooses the blocks that a sliding window needs, and computes the attention that reads them.

vLLM: `SlidingWindowManager` in `v1/core/single_type_kv_cache_manager.py` and `HybridKVCacheCoordinator` in
`v1/core/kv_cache_coordinator.py`; the attention window is an argument of the attention kernels.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.cdiv import cdiv
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
    index = max(0, num_computed_tokens - window + 1) // block_size - 1
    # Usually, at most one block per step leaves the window, but many leave after a long chunk. Null blocks have already
    # been freed.
    while index >= 0 and table[index] != NULL_BLOCK_ID:
        pool.free_blocks([table[index]])
        table[index] = NULL_BLOCK_ID
        index -= 1


def allocate_groups(
    tables: Tables, num_blocks: int, pool: GroupPool, pin: Callable[[list[int]], None] | None
) -> list[list[int]] | None:
    """Extend every group's table to `num_blocks` blocks, in group order; extend all of them or none.

    Returns each group's new blocks. None means that the request was refused and nothing has changed. When a request is
    being admitted, the tables already contain its hits: call `pin(table)` for each table to take the hits from the free
    queue and hold them. `pin` is None if the tables are already held.
    """
    num_needed = sum(max(0, num_blocks - len(table)) for table in tables)
    num_free_hits = sum(pool.is_free(block_id) for table in tables for block_id in table)
    if num_needed + num_free_hits > pool.num_free_blocks:
        return None
    # Pin all hits before taking the first new block: otherwise, a free hit of the second group could be handed out to
    # the first.
    if pin is not None:
        for table in tables:
            pin(table)
    new_blocks = [pool.get_new_blocks(max(0, num_blocks - len(table))) for table in tables]
    for table, taken in zip(tables, new_blocks, strict=True):
        table += taken
    return new_blocks


def find_sliding_hit(cached: Sequence[int | None], window: int, block_size: int) -> list[int]:
    """Return the block table of the longest hit for a layer with a window.

    For each prompt block, `cached` gives the id of a cached block with the same tokens and the same preceding tokens,
    or None. The token after the hit attends to the hit's last `window - 1` tokens. All blocks that hold these tokens,
    and in any case at least one block, must be cached; the null block replaces the blocks before them. A hit that
    reaches back to the first token may hold fewer than `window - 1` tokens.
    """
    num_needed = cdiv(window - 1, block_size)
    found: list[int] = []
    for index in reversed(range(len(cached))):
        block_id = cached[index]
        found = [] if block_id is None else [block_id, *found]
        if found and len(found) >= num_needed:
            return [NULL_BLOCK_ID] * index + found
    return found


def find_common_hit(cached: Sequence[Sequence[int | None]], windows: Sequence[int | None], block_size: int) -> Tables:
    """Return one table per group, all equally long, for the longest hit that all groups have in common.

    For each group, `cached` is as in `find_sliding_hit`; `windows` contains None for full attention, which comes first,
    and at most one window size. Full attention needs every block from the first one onwards.
    """
    hits: list[list[int]] = []
    num_blocks = len(cached[0])
    for blocks, window in zip(cached, windows, strict=True):
        # Searched within the full-attention hit: a prefix of that hit is also a hit, whereas a prefix of a
        # sliding-window hit is not.
        blocks = blocks[:num_blocks]
        hit = _full_hit(blocks) if window is None else find_sliding_hit(blocks, window, block_size)
        num_blocks = len(hit)
        hits.append(hit)
    return tuple(hit[:num_blocks] for hit in hits)


def _full_hit(blocks: Sequence[int | None]) -> list[int]:
    hit: list[int] = []
    for block_id in blocks:
        if block_id is None:
            break
        hit.append(block_id)
    return hit


def sliding_attention(
    query: "Tensor", key_cache: "Tensor", value_cache: "Tensor", batch: "FlatBatch", scale: float, window: int
) -> "Tensor":
    """Attend from each token to its request's last `window` tokens, up to and including itself; return [T, heads,
    head_dim].

    query [T, heads, head_dim]; caches [blocks, block_size, kv_heads, head_dim], already holding the step's own K and V.
    Query head h reads K/V head `h // (heads // kv_heads)`. The contents of the null block must not affect the result.
    """
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    output, block_size = torch.empty_like(query), key_cache.shape[1]
    for group in batch.groups:
        positions = batch.positions[group.rows]  # [N, Q]
        # Only the blocks that some query in the row reaches: a decode reads its window, however long the text is.
        num_blocks = cdiv(positions.shape[1] + window - 1, block_size) + 1
        first = (positions.amin(1, keepdim=True) - window + 1).clamp(min=0) // block_size
        places = first + torch.arange(num_blocks, device=query.device)  # [N, blocks]
        # Past the end of the table, its last block is read again: no query reaches that far, so the mask hides it.
        blocks = group.block_tables.gather(1, places.clamp(max=group.block_tables.shape[1] - 1))
        keys, values = (cache[blocks].flatten(1, 2).transpose(1, 2) for cache in (key_cache, value_cache))
        offsets = torch.arange(block_size, device=query.device)
        key_positions = (places[..., None] * block_size + offsets).flatten(1)  # [N, S]
        distance = positions[:, None, :, None] - key_positions[:, None, None, :]
        attended = scaled_dot_product_attention(
            query[group.rows].transpose(1, 2),
            keys,
            values,
            attn_mask=(distance >= 0) & (distance < window),
            scale=scale,
            enable_gqa=True,
        )
        output[group.rows] = attended.transpose(1, 2)
    return output
