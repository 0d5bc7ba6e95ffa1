"""The scheduler's frame: the queues and the parts, and the order in which a step uses them."""

from dataclasses import dataclass, field

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.seams.interfaces import (
    ChunkPolicy,
    KVCacheManager,
    Preemption,
    PrefixCache,
    RequestQueue,
    SchedulingFunctions,
)


@dataclass
class Scheduler:
    """Who runs, who waits, and what each step computes. (vLLM: `Scheduler` in `v1/core/sched/scheduler.py`.)

    `requests` holds every request that is not finished. `finished_req_ids` are those that ended since
    the last `schedule()`.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    functions: SchedulingFunctions
    kv: KVCacheManager
    prefix_cache: PrefixCache
    preemption: Preemption
    chunks: ChunkPolicy
    waiting: RequestQueue
    running: list[Request] = field(default_factory=list)
    requests: dict[str, Request] = field(default_factory=dict)
    finished_req_ids: set[str] = field(default_factory=set)

    def add_request(self, request: Request) -> None:
        """Queue a request. Whether it can ever run was checked before (`LLMEngine.add_request`)."""
        self.requests[request.request_id] = request
        self.prefix_cache.update_block_hashes(request)
        self.waiting.add_request(request)

    def has_unfinished_requests(self) -> bool:
        return bool(self.requests)

    def schedule(self) -> SchedulerOutput:
        """Plan the next step and count its tokens as computed; results only ever correct that."""
        self.finished_req_ids.clear()
        scheduler_output = self.functions.schedule_step(
            self.running,
            self.waiting,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            kv=self.kv,
            preemption=self.preemption,
            chunks=self.chunks,
        )
        for request_id, num_new_tokens in scheduler_output.num_scheduled_tokens.items():
            request = self.requests[request_id]
            if request.num_cached_tokens < 0:
                request.num_cached_tokens = request.num_computed_tokens
            request.num_computed_tokens += num_new_tokens
        return scheduler_output

    def update_from_output(
        self, scheduler_output: SchedulerOutput, sampled_token_ids: dict[str, list[int]]
    ) -> dict[str, list[int]]:
        """Apply the sampled tokens; return request id to the tokens that were kept."""
        kept = self.functions.update_from_output(
            scheduler_output,
            sampled_token_ids,
            self.requests,
            self.running,
            max_model_len=self.max_model_len,
            kv=self.kv,
        )
        for request_id in kept:
            if self.requests[request_id].is_finished:
                self._forget(self.requests[request_id])
        return kept

    def finish_request(self, request_id: str, status: RequestStatus) -> bool:
        """End a request from outside, wherever it is. False if it is not alive: then nothing happens."""
        request = self.requests.get(request_id)
        if request is None:
            return False
        if request.status is RequestStatus.RUNNING:
            self.running.remove(request)
        else:
            self.waiting.remove_request(request)
        request.status = status
        self.kv.free(request)
        self._forget(request)
        return True

    def roll_back(self, scheduler_output: SchedulerOutput) -> None:
        """Undo a step that was never computed: its requests go back to wait, first one at the front.

        What they had computed before is given up, because blocks that the failed step was to fill may
        already be shared. With prefix caching most of it is found again. Running requests behind them
        that the step had not planned go with them, so that the order of arrival is kept.
        """
        planned = scheduler_output.num_scheduled_tokens
        first = next((place for place, r in enumerate(self.running) if r.request_id in planned), len(self.running))
        undone = self.running[first:]
        del self.running[first:]
        for request in reversed(undone):
            request.num_computed_tokens -= planned.get(request.request_id, 0)
            self.kv.free(request)
            request.num_computed_tokens = 0
            request.status = RequestStatus.PREEMPTED
            self.waiting.prepend_request(request)

    def _forget(self, request: Request) -> None:
        del self.requests[request.request_id]
        self.finished_req_ids.add(request.request_id)
