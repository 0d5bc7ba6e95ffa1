"""What phases 7 and 8 add to a step of the scheduler: drafts, and placeholders for the results of steps in flight."""

from collections.abc import Mapping, Sequence

from mini_vllm.core.ahead import ChunksAhead, KVCacheAhead
from mini_vllm.core.electives import AsyncScheduling, Speculation
from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, PrefixCache, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput


class TokensAhead:
    """Counts the tokens that are scheduled before they are known. One of the two phases may be None."""

    def __init__(
        self,
        speculation: Speculation | None,
        async_scheduling: AsyncScheduling | None,
        max_model_len: int,
        num_speculative_tokens: int,
    ) -> None:
        self.speculation = speculation
        self.async_scheduling = async_scheduling
        self.max_model_len = max_model_len
        # Rejected drafts of one step, and the drafter's slots for the next ones.
        self.num_spare_tokens = 2 * num_speculative_tokens
        self._kv: KVCacheAhead | None = None
        self._arriving_while_waiting: list[Request] = []

    def chunks(self, inner: ChunkPolicy) -> ChunksAhead:
        """Return phase 5's policy for tokens ahead."""
        return ChunksAhead(inner, self.max_model_len, self.async_scheduling)

    def kv_cache(self, inner: KVCacheManager, prefix_cache: PrefixCache) -> KVCacheAhead:
        """Return phase 2's manager for tokens ahead; the one that was returned before is forgotten."""
        self._kv = KVCacheAhead(inner, prefix_cache, self.max_model_len, self.speculation)
        return self._kv

    def after_schedule(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """Take the drafts of the requests that were scheduled, and placeholders for what they will sample."""
        for request_id in scheduler_output.num_scheduled_tokens:
            request, num_drafts = requests[request_id], 0
            if self.speculation is not None and request.spec_token_ids:
                drafts = self.speculation.schedule_drafts(request)
                num_drafts = len(drafts)
                if drafts:
                    scheduler_output.scheduled_spec_decode_tokens[request_id] = drafts
            if self.async_scheduling is not None:
                self.async_scheduling.take_placeholders(request, num_drafts)

    def before_update(
        self,
        scheduler_output: SchedulerOutput,
        sampled_token_ids: Mapping[str, Sequence[int]],
        requests: Mapping[str, Request],
    ) -> None:
        """Take rejected drafts back, so that the counters are right when the tokens are appended."""
        if self.speculation is not None:
            for request_id, drafts in scheduler_output.scheduled_spec_decode_tokens.items():
                if request_id in requests and request_id in sampled_token_ids:
                    num_sampled = len(sampled_token_ids[request_id])
                    self.speculation.roll_back(requests[request_id], len(drafts), num_sampled)
        if self.async_scheduling is not None:
            order = (requests[i] for i in scheduler_output.num_scheduled_tokens if i in requests)
            arriving = [request for request in order if sampled_token_ids.get(request.request_id)]
            if self._kv is not None:
                self._kv.expect_late(one for one in arriving if one.status is RequestStatus.RUNNING)
            self._arriving_while_waiting = [one for one in arriving if one.status is not RequestStatus.RUNNING]

    def after_update(
        self, kept: Mapping[str, Sequence[int]], requests: Mapping[str, Request], waiting: RequestQueue
    ) -> None:
        """Give back the placeholders of what has arrived. A request preempted in flight may end while it waits."""
        if self.async_scheduling is None:
            return
        for request_id, token_ids in kept.items():
            self.async_scheduling.fill_placeholders(requests[request_id], len(token_ids))
        if self._kv is not None:
            self._kv.cache_late_blocks()
        for request in self._arriving_while_waiting:
            if request.is_finished:
                waiting.remove_request(request)
        self._arriving_while_waiting = []
