"""What the calls of phase 4 cost with few blocks and with many. Nothing here is to be filled in."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from course.labtest.cost import check_constant_work
from course.labtest.phase4.cases import RecordingPool, request_of
from course.labtest.work import work_of
from mini_vllm.core.request import Request

RULE = "A prompt may have 100,000 tokens, and a cache as many blocks: what a call costs per block is always the same."
HINT = "which line of yours goes through all blocks or all tokens, or copies them, for each block or in each call?"
Call = Callable[[Any, Request, Request], object]
CALLS: dict[str, Call] = {
    "update_block_hashes, per block": lambda cache, cached, new: cache.update_block_hashes(new),
    "update_block_hashes with one new block": lambda cache, cached, new: cache.update_block_hashes(cached),
    "find_longest_cache_hit, per block": lambda cache, cached, new: cache.find_longest_cache_hit(new),
    "find_longest_cache_hit without a hit": lambda cache, cached, new: cache.find_longest_cache_hit(
        request_of("B", [1] * 9)
    ),
    "cache_full_blocks with one new block": lambda cache, cached, new: cache.cache_full_blocks(
        request_of("B", [1] * 4), [0], 0, 1
    ),
    "pin without a hit": lambda cache, cached, new: cache.pin(new, [], RecordingPool()),
    "hit_rate": lambda cache, cached, new: cache.hit_rate(),
    "evict": lambda cache, cached, new: cache.evict(cached.num_tokens // 8),
}


def check_cost(phase4: ModuleType, call: str) -> None:
    """Check that a call costs no more in a cache with many blocks, or no more per block of a long prompt."""

    def work_with(num_blocks: int) -> int:
        tokens = [number * 7 % 900 for number in range(4 * num_blocks + 1)]
        cache, cached, new = phase4.HashPrefixCache(4), request_of("A", tokens), request_of("new", tokens)
        cache.cache_full_blocks(cached, list(range(num_blocks)), 0, num_blocks)
        cached.all_token_ids += range(4)
        cache.update_block_hashes(cached)  # a list that grows by one may copy itself once; from then on it has room
        cached.all_token_ids += range(4)
        work = work_of(lambda: CALLS[call](cache, cached, new), str(phase4.__file__))
        return work // num_blocks if call.endswith("per block") else work

    check_constant_work(work_with, call, "blocks", RULE, HINT)
