"""Phase 14, reference: six rules of vLLM 0.33.0's scheduler that 0.13.0 does not have.

vLLM 0.33.0: `Scheduler.schedule` in `v1/core/sched/scheduler.py` (14.1, 14.4, 14.5), `BlockPool.free_blocks` in
`v1/core/block_pool.py` (14.2), `KVCacheManager.allocate_slots` in `v1/core/kv_cache_manager.py` (14.3) and
`SlidingWindowManager` in `v1/core/single_type_kv_cache_manager.py` (14.6).
"""

from collections.abc import Collection, Sequence

from mini_vllm.core.cdiv import cdiv
from mini_vllm.electives.releases.release_functions import RoomAsked


def threshold_of_step(threshold: int, num_requests: int, max_num_batched_tokens: int, is_adaptive: bool) -> int:
    """Return the maximum number of tokens for one request in this step; 0 means no limit.

    `num_requests` counts the running and waiting requests. With `is_adaptive` the limit is at least a fair share of the
    step's tokens.
    """
    # No other request could use the tokens that a lone request would leave unused.
    if threshold == 0 or num_requests <= 1:
        return 0
    return max(threshold, max_num_batched_tokens // num_requests) if is_adaptive else threshold


def order_freed(block_ids: Sequence[int], with_content: Collection[int]) -> tuple[list[int], list[int]]:
    """Divide freed blocks into those for the front of the free queue and those for its back.

    Both lists are in the order in which the blocks are handed out. `with_content` contains the blocks that are in the
    prefix cache.
    """
    # Overwriting a block without contents does not lose anything, and cached blocks survive longer.
    front = [block_id for block_id in block_ids if block_id not in with_content]
    return front, [block_id for block_id in block_ids if block_id in with_content]


def has_room(asked: RoomAsked) -> bool:
    """Return whether a waiting request may get its blocks."""
    num_free = asked.num_free
    # If nothing is running, no request will finish and free more blocks, so this one would wait forever.
    if asked.has_running:
        num_free -= int(asked.watermark * asked.num_gpu_blocks)
    num_unpromised = num_free - asked.num_promised
    if asked.num_for_sequence is not None and asked.num_for_sequence > num_unpromised:
        return False
    return asked.num_for_step <= (num_unpromised if asked.is_load else num_free)


def requests_left(running: Sequence[str], current: str, victims: Collection[str]) -> list[str]:
    """Return the running requests that still get tokens in this step, in order, after `current` has requested room.

    `victims` were preempted for it; `current` may be one of them. All requests before `current` have been served.
    """
    return [request_id for request_id in running[running.index(current) + 1 :] if request_id not in victims]


class PrefillPacer:
    """Computes parts of prompts only in every `interval`-th step while other requests decode."""

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.num_executed = 0
        self.last_with_prompt = 0  # number of the last executed step that contained part of a prompt
        self.is_held = False
        self.is_saturated = False

    def holds(self, has_decodes: bool) -> bool:
        """Return whether the step that is about to begin holds prompts back."""
        is_early = self.num_executed + 1 < self.last_with_prompt + self.interval
        self.is_held = is_early and has_decodes and not self.is_saturated
        return self.is_held

    def planned(self, num_tokens: int, has_prompt: bool, num_left_waiting: int | None) -> None:
        """Record the step that was planned. `num_left_waiting` is None if the step did not look at the queue."""
        self.num_executed += num_tokens > 0
        if has_prompt:
            self.last_with_prompt = self.num_executed
        # A held step admits nothing, so the requests that it leaves in the queue tell us nothing.
        if num_left_waiting is not None and not self.is_held:
            self.is_saturated = num_left_waiting > 0


def reachable_blocks(
    first: int, end: int, *, num_prompt_tokens: int, junction: int, window: int, block_size: int, interval: int
) -> list[int]:
    """Return which of blocks `first` to `end - 1` in a sliding window's table enter the prefix cache, in order.

    A hit can end before the last prompt token, after `junction` blocks, and after every `interval` tokens; a `junction`
    or `interval` of 0 does not apply.
    """
    num_blocks_apart = interval // block_size
    num_needed = cdiv(window - 1, block_size)
    hit_ends = [(num_prompt_tokens - 1) // block_size, junction]
    if num_blocks_apart > 0:
        hit_ends += range(num_blocks_apart, end + num_needed, num_blocks_apart)
    # A hit reads one window back from its end, and nothing before that.
    return [block for block in range(first, end) if any(hit - num_needed <= block < hit for hit in hit_ends)]
