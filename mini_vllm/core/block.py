"""The bookkeeping for one KV cache block; the block's memory belongs to the runner."""

from dataclasses import dataclass

NULL_BLOCK_ID = 0  # never allocated: it fills the table entries that do not need a block


@dataclass(slots=True, eq=False)
class KVCacheBlock:
    """A block and its neighbours in the free queue. (vLLM: `v1/core/kv_cache_utils.py`.)

    `ref_cnt` is the number of requests that hold the block. The two links are set only while the
    block is in the free queue.
    """

    block_id: int
    ref_cnt: int = 0
    prev_free_block: "KVCacheBlock | None" = None
    next_free_block: "KVCacheBlock | None" = None
