"""Phases 2 and 5 for requests that are ahead of their tokens: drafts, and results of steps in flight.

The two phases count known tokens. These wrappers translate, so that what a learner wrote for them serves phases 7
and 8 unchanged. An engine without those has no wrapper.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from mini_vllm.core.electives import AsyncScheduling, Speculation
from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, PrefixCache
from mini_vllm.core.request import Request, RequestStatus


class ChunksAhead:
    """A `ChunkPolicy` that also grants the tokens behind the last known one."""

    def __init__(self, inner: ChunkPolicy, max_model_len: int, async_scheduling: AsyncScheduling | None) -> None:
        self.inner = inner
        self.max_model_len = max_model_len
        self.async_scheduling = async_scheduling

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        if request.status is not RequestStatus.RUNNING:
            return self.inner.num_new_tokens(request, num_computed_tokens, token_budget)
        if self.async_scheduling is not None and self.async_scheduling.is_surely_over(request):
            return 0
        # With a counter that is too small by what is ahead, the policy grants what is ahead as well. Its cap by
        # `max_model_len` is then too lax by as much.
        granted = self.inner.num_new_tokens(request, num_computed_tokens - request.num_tokens_ahead, token_budget)
        if granted == 0 and request.spec_token_ids:  # phase 5 is absent, and 1 + k tokens are too many: no drafts
            counted = num_computed_tokens - request.num_output_placeholders
            granted = self.inner.num_new_tokens(request, counted, token_budget)
        return min(granted, self.max_model_len - 1 - num_computed_tokens)

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        return self.inner.admits(request, hit_blocks, running, kv)

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return self.inner.should_sample(request, num_computed_tokens)


class KVCacheAhead:
    """A `KVCacheManager` that allocates slots for drafts and caches blocks that were filled behind its back.

    Accepted drafts and results that arrive late fill blocks between two calls of `allocate_slots`. So how far the
    prefix cache knows a request is counted here, and not taken from `num_computed_tokens`.
    """

    def __init__(
        self, inner: KVCacheManager, prefix_cache: PrefixCache, max_model_len: int, speculation: Speculation | None
    ) -> None:
        self.inner = inner
        self.prefix_cache = prefix_cache
        self.max_model_len = max_model_len
        self.speculation = speculation
        self.block_size = inner.block_size
        self.num_usable_blocks = inner.num_usable_blocks
        self._num_cached_blocks: dict[str, int] = {}
        self._late: deque[Request] = deque()

    @property
    def num_free_blocks(self) -> int:
        return self.inner.num_free_blocks

    def get_computed_blocks(self, request: Request) -> list[int]:
        hit_blocks = self.inner.get_computed_blocks(request)
        return hit_blocks if self.speculation is None else self.speculation.usable_hit_blocks(hit_blocks)

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        hit_blocks: Sequence[int] = (),
        num_lookahead_tokens: int = 0,
    ) -> list[int] | None:
        num_computed_tokens = request.num_computed_tokens + len(hit_blocks) * self.block_size
        end = num_computed_tokens + num_new_tokens
        if self.speculation is not None:
            num_lookahead_tokens += self.speculation.num_lookahead_tokens(request)
        num_lookahead_tokens = min(num_lookahead_tokens, self.max_model_len - end)
        new_blocks = self.inner.allocate_slots(request, num_new_tokens, hit_blocks, num_lookahead_tokens)
        if new_blocks is not None:
            num_full_blocks = min(end, request.num_tokens) // self.block_size
            # The inner manager has cached what is full from the counter on; what lies before it is cached here.
            num_cached_blocks = self._num_cached_blocks.setdefault(request.request_id, len(hit_blocks))
            self._cache(request, min(num_computed_tokens // self.block_size, num_full_blocks))
            self._num_cached_blocks[request.request_id] = max(num_cached_blocks, num_full_blocks)
        return new_blocks

    def expect_late(self, requests: Iterable[Request]) -> None:
        """Note the running requests whose tokens arrive now, in the order of their step."""
        self._late = deque(requests)

    def cache_late_blocks(self, last: Request | None = None) -> None:
        """Cache the blocks that late tokens have filled: those of `last` and of the requests before it, or all."""
        while self._late and (last is None or last in self._late):
            request = self._late.popleft()
            # The newest token is not computed yet.
            self._cache(request, (request.num_tokens - 1) // self.block_size)

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.cache_late_blocks(request)  # first, in the order of the step: of equal blocks the first one counts
        self._num_cached_blocks.pop(request.request_id, None)
        self.inner.free(request, num_computed_tokens)

    def block_ids(self, request_id: str) -> list[int]:
        return self.inner.block_ids(request_id)

    def free_block_ids(self) -> list[int]:
        return self.inner.free_block_ids()

    def ref_counts(self) -> dict[int, int]:
        return self.inner.ref_counts()

    def _cache(self, request: Request, num_full_blocks: int) -> None:
        num_cached_blocks = self._num_cached_blocks.get(request.request_id)
        if num_cached_blocks is None or num_full_blocks <= num_cached_blocks:
            return  # preempted since, or nothing new
        table = self.inner.block_ids(request.request_id)
        self.prefix_cache.cache_full_blocks(request, table, num_cached_blocks, num_full_blocks)
        self._num_cached_blocks[request.request_id] = num_full_blocks
