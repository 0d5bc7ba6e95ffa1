"""The seam of phase 14: six rules that vLLM changed after 0.13.0, with the rules of 0.13.0 as their defaults."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from mini_vllm.release_rules import ReleaseRules


class RoomAsked(NamedTuple):
    """The blocks that a waiting request needs, and the pool's blocks. All fields except the last three count blocks.

    A request needs `num_for_step` blocks for its tokens in this step, and `num_for_sequence` for all its known tokens
    (None if `scheduler_reserve_full_isl` is off). Both counts include prefix hits that are in the free queue. Requests
    that are in the middle of their prompts or loads still need `num_promised` blocks.
    """

    num_for_step: int
    num_for_sequence: int | None
    num_promised: int
    num_free: int
    num_gpu_blocks: int
    watermark: float  # a fraction of `num_gpu_blocks`
    is_load: bool  # whether the request's K and V are loaded instead of computed
    has_running: bool  # whether any request is running


class ReachableBlocks(Protocol):
    """Returns which of blocks `first` to `end - 1` in a sliding window's table enter the prefix cache, in order."""

    def __call__(
        self,
        first: int,
        end: int,
        *,
        num_prompt_tokens: int,
        junction: int,
        window: int,
        block_size: int,
        interval: int,
    ) -> list[int]: ...


class Pacer(Protocol):
    """Decides in which steps prompts are computed. (vLLM: `prefill_schedule_interval`.)"""

    def holds(self, has_decodes: bool) -> bool:
        """Return whether the step that is now starting holds prompts back. The scheduler calls this once per step."""

    def planned(self, num_tokens: int, has_prompt: bool, num_left_waiting: int | None) -> None:
        """Record the planned step: its tokens, and whether it computes a part of a prompt.

        `num_left_waiting` requests are still waiting and were not skipped; it is None if the step did not look at the
        queue.
        """


@dataclass(frozen=True, slots=True)
class ReleaseFunctions:
    """Phase 14 as the layers in this folder use it.

    `threshold_of_step` takes the threshold, the number of unfinished requests, `max_num_batched_tokens`, and whether
    the threshold is adaptive. `order_freed` takes the ids of freed blocks, and the ids of blocks with cached content.
    `order_freed` returns the blocks for the front of the free queue and those for its back, in the order in which they
    will be allocated. `requests_left` takes the ids of running requests, the request that needs room, and the victims.
    `make_pacer` takes the interval in steps.
    """

    threshold_of_step: Callable[[int, int, int, bool], int]
    order_freed: Callable[[Sequence[int], Collection[int]], tuple[list[int], list[int]]]
    has_room: Callable[[RoomAsked], bool]
    requests_left: Callable[[Sequence[str], str, Collection[str]], list[str]]
    make_pacer: Callable[[int], Pacer]
    reachable_blocks: ReachableBlocks

    def under(self, rules: ReleaseRules) -> "ReleaseFunctions":
        """Return a release's functions; where the release lacks a rule, use the rule of 0.13.0."""
        is_newer = {
            "threshold_of_step": rules.threshold_spares_lone_request,
            "order_freed": rules.freed_without_content_first,
            "has_room": rules.whole_sequence_must_fit,
            "requests_left": rules.loop_survives_self_preemption,
            "reachable_blocks": rules.windows_cache_the_end,
        }
        return replace(self, **{name: getattr(RULES_OF_0_13, name) for name, newer in is_newer.items() if not newer})


def _same_threshold(threshold: int, num_requests: int, max_num_batched_tokens: int, is_adaptive: bool) -> int:
    return threshold


def _all_to_the_back(block_ids: Sequence[int], with_content: Collection[int]) -> tuple[list[int], list[int]]:
    return [], list(block_ids)


def _first_chunk_fits(asked: RoomAsked) -> bool:
    return asked.num_for_step <= asked.num_free - (asked.num_promised if asked.is_load else 0)


def _none_after_self_preemption(running: Sequence[str], current: str, victims: Collection[str]) -> list[str]:
    return [] if current in victims else list(running)


def _every_block(first: int, end: int, **described: int) -> list[int]:
    return list(range(first, end))


class _NeverHolds:
    def __init__(self, interval: int) -> None:
        pass

    def holds(self, has_decodes: bool) -> bool:
        return False

    def planned(self, num_tokens: int, has_prompt: bool, num_left_waiting: int | None) -> None:
        pass


RULES_OF_0_13 = ReleaseFunctions(
    _same_threshold, _all_to_the_back, _first_chunk_fits, _none_after_self_preemption, _NeverHolds, _every_block
)
