"""Plans tokens before they are known: drafts, and the results of steps in flight.

A learner's code for phases 1, 2 and 5 counts known tokens. It serves phases 7 and 8 unchanged, because

    phase 5 receives a copy of the request to which the tokens ahead are appended        `ChunksAhead`
    phase 2 gives them slots, and their blocks are cached as soon as they are known      `KVCacheAhead`
    phase 1 applies the results one request at a time, wrapped by phases 7 and 8         `TokensAhead`

An engine without phases 7 and 8 uses nothing from this module.
"""

from collections.abc import Callable, Mapping, Sequence

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, PrefixCache, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.scheduler_parts import Sampled
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.async_scheduling import AsyncScheduling
from mini_vllm.electives.speculation import Speculation
from mini_vllm.electives.wrappers import WrappedChunks, WrappedKVCache

UNKNOWN = -1


class ChunksAhead(WrappedChunks):
    """A `ChunkPolicy` that also grants a running request its tokens ahead."""

    def __init__(self, inner: ChunkPolicy, max_model_len: int, async_scheduling: AsyncScheduling | None) -> None:
        super().__init__(inner)
        self.max_model_len = max_model_len
        self.async_scheduling = async_scheduling

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        if request.status is RequestStatus.RUNNING:
            if self.async_scheduling is not None and self.async_scheduling.is_surely_over(request):
                return 0
            # A step never computes the token at the model's last position, or any token after it.
            num_ahead = min(request.num_tokens_ahead, self.max_model_len - 1 - request.num_tokens)
            if num_ahead > 0:
                request = request.followed_by([UNKNOWN] * num_ahead)
        return self.inner.num_new_tokens(request, num_computed_tokens, token_budget)

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        # A step that computes tokens ahead has already computed all known tokens.
        return self.inner.should_sample(request, min(num_computed_tokens, request.num_tokens))


class KVCacheAhead(WrappedKVCache):
    """A `KVCacheManager` with slots for the tokens ahead, which caches blocks once their tokens are known.

    Phase 2 caches the blocks that a step fills when it allocates that step's slots. Accepted drafts and late results
    fill blocks later, so this class tracks how many blocks of each request are cached. (vLLM: `num_cached_block` and
    `cache_blocks` in `v1/core/single_type_kv_cache_manager.py`.)
    """

    def __init__(
        self,
        inner: KVCacheManager,
        prefix_cache: PrefixCache,
        max_model_len: int,
        speculation: Speculation | None,
        *,
        results_are_late: bool,
    ) -> None:
        super().__init__(inner)
        self.prefix_cache = prefix_cache
        self.max_model_len = max_model_len
        self.speculation = speculation
        self.results_are_late = results_are_late
        self._num_cached_blocks: dict[str, int] = {}

    def get_computed_blocks(self, request: Request) -> list[int]:
        hit_blocks = self.inner.get_computed_blocks(request)
        return hit_blocks if self.speculation is None else self.speculation.usable_hit_blocks(hit_blocks)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        num_computed_tokens = request.num_computed_tokens + len(hit_blocks) * self.block_size
        end = num_computed_tokens + num_new_tokens
        if self.speculation is not None:
            num_lookahead_tokens += self.speculation.num_lookahead_tokens(request)
        num_lookahead_tokens = min(num_lookahead_tokens, self.max_model_len - end)
        new_blocks = self.inner.allocate_slots(request, num_new_tokens, hit_blocks, num_lookahead_tokens)
        if new_blocks is not None:
            self._num_cached_blocks.setdefault(request.request_id, len(hit_blocks))
            self.cache_blocks(request, min(num_computed_tokens, request.num_tokens))
            # Phase 2 has already cached the blocks after these.
            num_full_blocks = min(end, request.num_tokens) // self.block_size
            num_cached_blocks = self._num_cached_blocks[request.request_id]
            self._num_cached_blocks[request.request_id] = max(num_cached_blocks, num_full_blocks)
        return new_blocks

    def cache_blocks(self, request: Request, num_tokens: int) -> None:
        """Cache the request's blocks that are filled by its first `num_tokens` tokens and are not cached yet."""
        num_cached_blocks = self._num_cached_blocks.get(request.request_id)
        num_full_blocks = num_tokens // self.block_size
        if num_cached_blocks is not None and num_full_blocks > num_cached_blocks:
            table = self.inner.block_ids(request.request_id)
            self.prefix_cache.cache_full_blocks(request, table, num_cached_blocks, num_full_blocks)
            self._num_cached_blocks[request.request_id] = num_full_blocks

    def cache_late_blocks(self, request: Request) -> None:
        """Cache the blocks that late results have filled. The newest token has not been computed yet."""
        if self.results_are_late:
            self.cache_blocks(request, min(request.num_computed_tokens, request.num_tokens - 1))

    def free(self, request: Request, num_computed_tokens: int) -> None:
        # A request's last tokens may fill blocks, but phase 1 frees those before `update_one` can cache them.
        self.cache_late_blocks(request)
        self._num_cached_blocks.pop(request.request_id, None)
        self.inner.free(request, num_computed_tokens)


class TokensAhead:
    """Phases 7 and 8, which wrap the other phases' plan and update. One of the two phases may be None.

    The scheduler uses `chunks` and `kv` in place of phases 5 and 2.
    """

    make_kv = KVCacheAhead

    def __init__(
        self,
        speculation: Speculation | None,
        async_scheduling: AsyncScheduling | None,
        max_model_len: int,
        *,
        chunks: ChunkPolicy,
        kv: KVCacheManager,
        prefix_cache: PrefixCache,
    ) -> None:
        self.speculation = speculation
        self.async_scheduling = async_scheduling
        self.chunks = ChunksAhead(chunks, max_model_len, async_scheduling)
        is_late = async_scheduling is not None
        self.kv = self.make_kv(kv, prefix_cache, max_model_len, speculation, results_are_late=is_late)

    def after_schedule(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """Record the scheduled drafts in the plan, and count placeholders for the tokens to be sampled."""
        for request_id in scheduler_output.num_scheduled_tokens:
            request, num_drafts = requests[request_id], 0
            if self.speculation is not None and request.spec_token_ids:
                drafts = self.speculation.schedule_drafts(request)
                num_drafts = len(drafts)
                if drafts:
                    scheduler_output.scheduled_spec_decode_tokens[request_id] = drafts
            if self.async_scheduling is not None:
                self.async_scheduling.take_placeholders(request, num_drafts)

    def update(
        self,
        scheduler_output: SchedulerOutput,
        sampled_token_ids: Sampled,
        requests: Mapping[str, Request],
        waiting: RequestQueue,
        apply: Callable[[SchedulerOutput, Sampled], Sampled],
    ) -> Sampled:
        """Apply the sampled tokens; return the accepted ones, keyed by request id. `apply` is phase 1's update.

        Requests are updated one at a time, as in vLLM, because only the first of several identical blocks is cached.
        """
        kept: Sampled = {}
        for name in scheduler_output.num_scheduled_tokens:
            if (request := requests.get(name)) is not None:
                kept |= self.update_one(request, scheduler_output, sampled_token_ids.get(name, []), waiting, apply)
        return kept

    def update_one(
        self,
        request: Request,
        scheduler_output: SchedulerOutput,
        token_ids: list[int],
        waiting: RequestQueue,
        apply: Callable[[SchedulerOutput, Sampled], Sampled],
    ) -> Sampled:
        """Apply the sampled tokens of one request, if there are any; return the accepted ones."""
        if not token_ids:
            return {}
        name = request.request_id
        drafts = scheduler_output.scheduled_spec_decode_tokens.get(name)
        if self.speculation is not None and drafts:
            self.speculation.roll_back(request, len(drafts), len(token_ids))
        was_running = request.status is RequestStatus.RUNNING
        kept = apply(SchedulerOutput(0, {name: scheduler_output.num_scheduled_tokens[name]}), {name: token_ids})
        if self.async_scheduling is not None:
            self.async_scheduling.fill_placeholders(request, len(kept.get(name, ())))
        self.kv.cache_late_blocks(request)
        if request.is_finished and not was_running:  # it was preempted in flight, so it ends while waiting
            waiting.remove_request(request)
        return kept
