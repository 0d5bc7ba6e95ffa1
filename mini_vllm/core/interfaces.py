"""The six seams between the engine and phases 1 to 6. (Phases 7 to 14: `electives/`.)

The docstring of each `Protocol` names the phase that implements it. Without that phase the engine uses the do-nothing
version in `absent.py`. `build.py` passes each implementation to the parts that use it. This module contains no logic.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from mini_vllm.core.request import Request
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest, SchedulerOutput


class RequestQueue(Protocol):
    """The waiting requests, in the order in which they are considered for admission."""

    def add_request(self, request: Request) -> None: ...
    def prepend_request(self, request: Request) -> None: ...
    def peek_request(self) -> Request: ...
    def pop_request(self) -> Request: ...
    def remove_request(self, request: Request) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Request]: ...


class KVCacheManager(Protocol):
    """Phase 2: the requests' block tables, and the pool of free blocks."""

    @property
    def block_size(self) -> int:
        """Tokens per block."""

    @property
    def num_usable_blocks(self) -> int:
        """The number of blocks that requests can hold, excluding the null block."""

    @property
    def num_free_blocks(self) -> int:
        """Length of the free queue."""

    def get_computed_blocks(self, request: Request) -> list[int]:
        """Return the ids of the cached blocks that hold the request's longest known prefix. Allocates nothing."""

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        hit_blocks: Sequence[int] = (),
        num_lookahead_tokens: int = 0,
    ) -> list[int] | None:
        """Allocate the blocks that a request needs for `num_new_tokens` more tokens: all of them or none.

        Returns the ids of the blocks taken from the free queue, in order. An empty list means success: the request's
        last block had free slots. Returns None and changes nothing if too few blocks are free.
        """

    def free(self, request: Request, num_computed_tokens: int) -> None:
        """Free all blocks, last block first. Blocks not filled by `num_computed_tokens` tokens leave the prefix
        cache."""

    def block_ids(self, request_id: str) -> list[int]:
        """Return the request's block table; empty if the request has no blocks."""

    def free_block_ids(self) -> list[int]:
        """Return the free queue, front first. Used for pictures and checks, not on the hot path."""

    def ref_counts(self) -> dict[int, int]:
        """Return the number of holders of each block in use, keyed by block id."""


class BlockPool(Protocol):
    """The part of phase 2 that phase 4 uses."""

    def touch(self, block_id: int) -> None:
        """Add a holder to a block; remove the block from the free queue if it was there."""


class WholeBlockPool(BlockPool, Protocol):
    """The part of phase 2 that several groups of layers share; each group has separate tables."""

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        """Take blocks from the front of the free queue."""

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        """Remove one holder from each block; blocks left without a holder go to the back of the free queue."""


class Preemption(Protocol):
    """Phase 3: which request to preempt when KV blocks run out."""

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: KVCacheManager,
    ) -> bool:
        """Preempt running requests until `request` holds slots for `num_new_tokens` more tokens.

        Victims move from `running` to `waiting` and are recorded in `scheduler_output.preempted`. A victim that was
        scheduled in this step is removed from the plan, and its tokens return to `scheduler_output.token_budget`.
        Returns True if `request` holds the slots. Returns False if `request` itself was the last victim (it is
        PREEMPTED now), or if no request may be preempted (it is still RUNNING).
        """


class PrefixCache(Protocol):
    """Phase 4: which block holds which tokens."""

    def update_block_hashes(self, request: Request) -> None:
        """Append to `request.block_hashes` the hashes of the blocks filled since the last call."""

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        """Return the cached blocks of the longest known prefix of at most `num_tokens - 1` tokens."""

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        """Pin the hit blocks of a request that is being admitted, and count the hit."""

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        """Insert blocks `num_cached_blocks` to `num_full_blocks - 1` of the request's table into the cache."""

    def evict(self, block_id: int) -> bool:
        """Evict a block that is being allocated; return whether it was in the cache."""

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        """Remove blocks that were added to the cache but never computed."""

    def cached_blocks(self) -> dict[int, bytes]:
        """Return the hash of every cached block, keyed by block id. Used for pictures and checks, not on the hot
        path."""

    def hit_rate(self) -> float:
        """Return the fraction of the admitted requests' tokens that the cache supplied, from 0 to 1."""


class HashBlock(Protocol):
    """Phase 4's `hash_block`: a full block's hash, chained to its parent's."""

    def __call__(self, parent_hash: bytes, token_ids: Sequence[int], extra_keys: Sequence[str | None]) -> bytes: ...


class ChunkPolicy(Protocol):
    """Phase 5: how much of a request goes into one step."""

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        """Return how many tokens to compute next, after all caps; 0 means no tokens in this step.

        `num_computed_tokens` is the request's counter, or, for a waiting request, its prefix hit.
        """

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        """Return whether a waiting request may be admitted now, considering the memory that its later chunks need."""

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether a request samples a token in this step, given that it will have `num_computed_tokens` computed
        tokens afterwards."""


class Clamp(Protocol):
    """Phase 1: how many tokens of the remaining budget one request gets."""

    def __call__(self, num_new: int, budget: int, threshold: int) -> int: ...


class ScheduleStep(Protocol):
    """Phase 1: plans a step in two phases, running requests first, then admissions."""

    def __call__(
        self,
        running: list[Request],
        waiting: RequestQueue,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        kv: KVCacheManager,
        preemption: Preemption,
        chunks: ChunkPolicy,
    ) -> SchedulerOutput: ...


class UpdateFromOutput(Protocol):
    """Phase 1: applies a step's sampled tokens to its requests."""

    def __call__(
        self,
        scheduler_output: SchedulerOutput,
        sampled_token_ids: dict[str, list[int]],
        requests: dict[str, Request],
        running: list[Request],
        *,
        max_model_len: int,
        kv: KVCacheManager,
    ) -> dict[str, list[int]]: ...


@dataclass(frozen=True, slots=True)
class SchedulingFunctions:
    """Phase 1 as the engine uses it: three functions."""

    clamp: Clamp
    schedule_step: ScheduleStep
    update_from_output: UpdateFromOutput


class SelectLogitsRows(Protocol):
    """Phases 6 and 7: which rows of a batch need logits."""

    def __call__(self, batch: Sequence[ScheduledRequest]) -> list[int]: ...


class ModelRunner(Protocol):
    """Phase 6: the forward pass."""

    @property
    def vocab_size(self) -> int: ...

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Compute the batch; return one new token for each request that samples."""
