"""Phase 14: six rules that vLLM changed between releases 0.13.0 and 0.33.0, one function or class each.

`EngineConfig(vllm="0.33.0")` runs them; `mini_vllm/electives/releases/` calls them.
"""

from collections.abc import Collection, Sequence

from mini_vllm.electives.releases.release_functions import RoomAsked


def threshold_of_step(threshold: int, num_requests: int, max_num_batched_tokens: int, is_adaptive: bool) -> int:
    """Return the maximum number of tokens for one request in this step; 0 means no limit.

    `num_requests` counts the running and waiting requests. With `is_adaptive` the limit is at least a fair share of the
    step's tokens.
    """
    raise NotImplementedError("Phase 14, task 1: threshold_of_step")


def order_freed(block_ids: Sequence[int], with_content: Collection[int]) -> tuple[list[int], list[int]]:
    """Divide freed blocks into those for the front of the free queue and those for its back.

    Both lists are in the order in which the blocks are handed out. `with_content` contains the blocks that are in the
    prefix cache.
    """
    raise NotImplementedError("Phase 14, task 2: order_freed")


def has_room(asked: RoomAsked) -> bool:
    """Return whether a waiting request may get its blocks."""
    raise NotImplementedError("Phase 14, task 3: has_room")


def requests_left(running: Sequence[str], current: str, victims: Collection[str]) -> list[str]:
    """Return the running requests that still get tokens in this step, in order, after `current` has requested room.

    `victims` were preempted for it; `current` may be one of them. All requests before `current` have been served.
    """
    raise NotImplementedError("Phase 14, task 4: requests_left")


class PrefillPacer:
    """Computes parts of prompts only in every `interval`-th step while other requests decode."""

    def __init__(self, interval: int) -> None:
        raise NotImplementedError("Phase 14, task 5: set the pacer's state")

    def holds(self, has_decodes: bool) -> bool:
        """Return whether the step that is about to begin holds prompts back."""
        raise NotImplementedError("Phase 14, task 5: holds")

    def planned(self, num_tokens: int, has_prompt: bool, num_left_waiting: int | None) -> None:
        """Record the step that was planned. `num_left_waiting` is None if the step did not look at the queue."""
        raise NotImplementedError("Phase 14, task 5: planned")


def reachable_blocks(
    first: int, end: int, *, num_prompt_tokens: int, junction: int, window: int, block_size: int, interval: int
) -> list[int]:
    """Return which of blocks `first` to `end - 1` in a sliding window's table enter the prefix cache, in order.

    A hit can end before the last prompt token, after `junction` blocks, and after every `interval` tokens; a `junction`
    or `interval` of 0 does not apply.
    """
    raise NotImplementedError("Phase 14, task 6: reachable_blocks")
