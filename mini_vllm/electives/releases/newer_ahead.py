"""Phases 7 and 8 under the rules after 0.13.0."""

from collections.abc import Callable, Mapping

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, PrefixCache, RequestQueue
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler_parts import Sampled
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.async_scheduling import AsyncScheduling
from mini_vllm.electives.releases.step_state import StepState
from mini_vllm.electives.speculation import Speculation
from mini_vllm.electives.tokens_ahead import KVCacheAhead, TokensAhead


class NewerSpeculation:
    """Phase 7 under the newer rules: shortens a prefix hit only if the release drops the hit's last block."""

    def __init__(self, inner: Speculation, step: StepState) -> None:
        assert step.speculative is not None
        self.inner = inner
        speculative, rules = step.speculative, step.rules
        covers_next = rules.hash_covers_next_token and not speculative.disable_lookahead_block_hashes
        keeps = covers_next or speculative.disable_eagle_block_drop or not speculative.prefill_lookahead
        self.drops_last_block = not keeps if rules.hash_covers_next_token else speculative.drafter_has_kv_cache
        self.num_lookahead_tokens = inner.num_lookahead_tokens
        self.schedule_drafts, self.roll_back = inner.schedule_drafts, inner.roll_back

    def usable_hit_blocks(self, hit_blocks: list[int]) -> list[int]:
        return self.inner.usable_hit_blocks(hit_blocks) if self.drops_last_block else hit_blocks


class NewerKVCacheAhead(KVCacheAhead):
    """Reserves slots for the tokens ahead.

    Enters blocks into the prefix cache after each update; the cache tracks which of them it already contains.
    """

    num_unsettled_tokens = 0

    def cache_blocks(self, request: Request, num_tokens: int) -> None:
        table = self.inner.block_ids(request.request_id)
        num_full_blocks = (num_tokens - self.num_unsettled_tokens) // self.block_size
        if table and num_full_blocks > 0:
            self.prefix_cache.cache_full_blocks(request, table, 0, num_full_blocks)


class NewerTokensAhead(TokensAhead):
    """Phases 7 and 8 under the newer rules.

    Keeps the tokens that are in flight when a request is preempted, without changing any counter.
    """

    kv: NewerKVCacheAhead
    make_kv = NewerKVCacheAhead

    def __init__(
        self,
        step: StepState,
        speculation: Speculation | None,
        async_scheduling: AsyncScheduling | None,
        *,
        chunks: ChunkPolicy,
        kv: KVCacheManager,
        prefix_cache: PrefixCache,
    ) -> None:
        max_model_len, _ = step.config.sizes
        super().__init__(speculation, async_scheduling, max_model_len, chunks=chunks, kv=kv, prefix_cache=prefix_cache)
        self.step = step
        self.kv.results_are_late |= step.rules.accepted_blocks_enter_in_update
        self.kv.num_unsettled_tokens = step.num_unsettled_tokens

    def after_schedule(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        super().after_schedule(scheduler_output, requests)
        shares = scheduler_output.num_scheduled_tokens
        for request_id, num_tokens in shares.items():
            request = requests[request_id]
            scheduler_output.num_preemptions[request_id] = request.num_preemptions
            self.step.in_flight[request_id] += num_tokens
            if self.step.speculative is not None and request.spec_token_ids:
                del request.spec_token_ids[self.step.speculative.num_drafts(len(shares)) :]

    def update(
        self,
        scheduler_output: SchedulerOutput,
        sampled_token_ids: Sampled,
        requests: Mapping[str, Request],
        waiting: RequestQueue,
        apply: Callable[[SchedulerOutput, Sampled], Sampled],
    ) -> Sampled:
        self.step.num_done += bool(scheduler_output.num_scheduled_tokens)
        self.step.free_leaving()
        return super().update(scheduler_output, sampled_token_ids, requests, waiting, apply)

    def update_one(
        self,
        request: Request,
        scheduler_output: SchedulerOutput,
        token_ids: list[int],
        waiting: RequestQueue,
        apply: Callable[[SchedulerOutput, Sampled], Sampled],
    ) -> Sampled:
        name = request.request_id
        self.step.in_flight[name] -= scheduler_output.num_scheduled_tokens[name]
        num_preemptions = scheduler_output.num_preemptions.get(name, request.num_preemptions)
        is_current = num_preemptions == request.num_preemptions or not self.step.rules.in_flight_is_forgotten
        if is_current and token_ids:
            return super().update_one(request, scheduler_output, token_ids, waiting, apply)
        if num_preemptions < self.step.dropped.get(name, 0):
            return {}
        kept = apply(SchedulerOutput(0, {name: scheduler_output.num_scheduled_tokens[name]}), {name: token_ids})
        if request.is_finished:
            waiting.remove_request(request)
        return kept
