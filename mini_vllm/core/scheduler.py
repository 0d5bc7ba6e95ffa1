"""The scheduler: owns the queues and the parts, and calls the parts in the order that a step requires."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import ScheduleStep
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.scheduler_parts import SchedulerParts
from mini_vllm.core.step import KVConnectorOutput, ScheduledRequest, SchedulerOutput
from mini_vllm.core.step_checks import check_kept


class Scheduler:
    """Decides which requests run, which wait, and what each step computes. (vLLM: `v1/core/sched/scheduler.py`.)

    `requests` holds every unfinished request in order of arrival. `finished_req_ids` holds the requests that have ended
    since the last `schedule()`. `make_parts` is called by the constructor, and again by `restart`. A request may hold
    slots for up to `num_spare_tokens` uncomputed tokens, which belong to rejected drafts or are reserved.
    """

    def __init__(
        self,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_model_len: int,
        make_parts: Callable[[], SchedulerParts],
        num_spare_tokens: int = 0,
        orders_by_priority: bool = False,
        has_policy: bool = False,
    ) -> None:
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.max_model_len = max_model_len
        self.num_spare_tokens = num_spare_tokens
        self.orders_by_priority = orders_by_priority
        self.has_policy = has_policy  # whether a scheduling policy chooses which requests run
        self.running: list[Request] = []
        self.requests: dict[str, Request] = {}
        self.finished_req_ids: set[str] = set()
        # Wraps each step's `schedule_step` for a recorder that must see the calls inside it; costs nothing if None.
        self.witnesses: list[Callable[[ScheduleStep], ScheduleStep]] = []
        self._to_roll_back: list[ScheduledRequest] | None = None
        self._is_half_updated = False
        # The requests in the last update and their token counts before it, and the requests that have ended since; kept
        # until `settle_update`. Copying all of `requests` in each step would cost 2 ms if 100,000 requests are waiting.
        self._in_update: dict[str, Request] = {}
        self._num_tokens_before: dict[str, int] = {}
        self._ended: dict[str, Request] = {}
        self._is_settled = True
        self._arrivals = count()
        self._arrival_of: dict[str, int] = {}
        self._make_parts = make_parts
        self._use(make_parts())

    def add_request(self, request: Request) -> None:
        """Queue a request. `LLMEngine.add_request` has already checked that the request can be served."""
        self.requests[request.request_id] = request
        self._arrival_of[request.request_id] = next(self._arrivals)
        self.prefix_cache.update_block_hashes(request)
        self.waiting.add_request(request)

    def has_unfinished_requests(self) -> bool:
        """Whether another step is needed, for a request or for blocks that are still being sent."""
        return bool(self.requests) or bool(self.gates.requests_being_sent)

    @property
    def has_windows(self) -> bool:
        """Whether tables may contain null blocks in place of blocks that have left a window."""
        return self._groups is not None

    def block_tables(self, request_id: str) -> Sequence[list[int]]:
        """Return the request's block tables, one per group of layers, in group order."""
        return [self.kv.block_ids(request_id)] if self._groups is None else self._groups.block_tables(request_id)

    def max_held_blocks(self, num_tokens: int) -> int:
        """Return how many blocks a request may hold at once while it grows to `num_tokens` tokens."""
        if self._groups is None:
            return cdiv(num_tokens, self.kv.block_size)
        return self._groups.max_held_blocks(num_tokens, self.max_num_batched_tokens + self.num_spare_tokens)

    def schedule(self) -> SchedulerOutput:
        """Plan the next step and count its tokens as computed. The step's results only ever correct that count."""
        self.finished_req_ids.clear()
        self.gates.start_step()
        schedule_step = self.functions.schedule_step
        for witness in self.witnesses:
            schedule_step = witness(schedule_step)
        scheduler_output = schedule_step(
            self.running,
            self.waiting,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            kv=self.kv,
            preemption=self.preemption,
            chunks=self.chunks,
        )
        self.gates.end_plan(scheduler_output, self.requests)
        for request_id, num_new_tokens in scheduler_output.num_scheduled_tokens.items():
            self.requests[request_id].advance(num_new_tokens)
        self.gates.advanced(scheduler_output, self.requests)
        if self.release is not None:
            self.release.planned(scheduler_output, self.requests)
        if self.ahead is not None:
            self.ahead.after_schedule(scheduler_output, self.requests)
        return scheduler_output

    def start_step(self, scheduler_output: SchedulerOutput) -> list[ScheduledRequest]:
        """Return the plan as a batch for the runner: each request's new tokens and their blocks.

        From this call until `update_from_output`, only the forward pass can fail, and `recover` rolls this step back.
        """
        batch: list[ScheduledRequest] = []
        for request_id, num_tokens in scheduler_output.num_scheduled_tokens.items():
            request = self.requests[request_id]
            end = request.num_computed_tokens
            drafts = scheduler_output.scheduled_spec_decode_tokens.get(request_id, ())
            if self.release is not None and request_id in self.release.has_stand_ins:
                num_tokens, end, drafts = num_tokens - len(drafts), end - len(drafts), ()  # all drafts are rejected
            needs_token = self.chunks.should_sample(request, end)
            share = ScheduledRequest(
                request, end - num_tokens, num_tokens, self.kv.block_ids(request_id), needs_token, drafts
            )
            if self.has_windows:  # copies, because planning a step ahead may free blocks that this step still reads
                share.block_tables = [list(table) for table in self.block_tables(request_id)]
                share.block_ids = share.block_tables[0]
            batch.append(share)
        self._to_roll_back = batch
        return batch

    def update_from_output(
        self,
        scheduler_output: SchedulerOutput,
        sampled_token_ids: dict[str, list[int]],
        transfers: KVConnectorOutput | None = None,
    ) -> dict[str, list[int]]:
        """Apply the sampled tokens of the oldest step in flight; return the accepted tokens, keyed by request id.

        `transfers` is the report from the connector's worker side for this step.
        """
        requests = self.requests
        sampled_token_ids = self.gates.without_lost(sampled_token_ids, transfers, self.running)
        self.settle_update()
        self._in_update = {name: requests[name] for name in sampled_token_ids if name in requests}
        self._num_tokens_before = {name: len(request.all_token_ids) for name, request in self._in_update.items()}
        self._is_settled, self._is_half_updated = False, True
        self._to_roll_back = None
        if self.ahead is None:
            kept = self._apply(scheduler_output, sampled_token_ids)
        else:
            kept = self.ahead.update(scheduler_output, sampled_token_ids, requests, self.waiting, self._apply)
        for request_id in kept:
            if self.requests[request_id].is_finished:
                self._forget(request_id)
        is_idle = not scheduler_output.num_scheduled_tokens
        self.gates.end_step(transfers, is_idle=is_idle, has_sampled=bool(kept))
        self._is_half_updated = False
        return kept

    def check_update(self, sampled_token_ids: dict[str, list[int]], kept: dict[str, list[int]]) -> None:
        """Check that the last update changed the requests as its return value says. Raises `InvariantError`."""
        may_drop = self.release is not None
        check_kept(self._in_update, self._num_tokens_before, sampled_token_ids, kept, may_drop=may_drop)

    def update_draft_token_ids(self, drafts: Mapping[str, list[int]]) -> None:
        """Give unfinished requests the drafts for their next step."""
        for request_id, draft_token_ids in drafts.items():
            self.requests[request_id].spec_token_ids = draft_token_ids

    def update_priority(self, request_id: str, priority: int) -> bool:
        """Change an unfinished request's priority and requeue it if it is waiting; return whether the request
        exists."""
        request = self.requests.get(request_id)
        if request is None:
            return False
        moves = self.orders_by_priority and request.status is not RequestStatus.RUNNING
        if moves:  # must come before the change, because a queue may look the request up by its old priority
            self.waiting.remove_request(request)
        request.priority = priority
        if moves:
            self.waiting.add_request(request)
        return True

    def finish_request(
        self, request_id: str, status: RequestStatus, reason: str | None = None, num_computed_tokens: int | None = None
    ) -> Request | None:
        """End an unfinished request with a final `status`, free its blocks and return it; return None if it is unknown.

        The K and V of its first `num_computed_tokens` tokens stay in the prefix cache (default: all scheduled ones).
        """
        request = self.requests.get(request_id)
        if request is None:
            return None
        was_running = request.status is RequestStatus.RUNNING
        request.finish(status, reason)
        self._forget(request_id)
        if was_running:
            self.running.remove(request)
        else:
            self.waiting.remove_request(request)
        self.kv.free(request, request.num_computed_tokens if num_computed_tokens is None else num_computed_tokens)
        return request

    def take_back_update(self) -> None:
        """Undo the last update before a restart, because a check found its tokens or its state wrong.

        The tokens are removed, and the requests that ended with them become unfinished again, in order of arrival.
        """
        self._to_roll_back = None  # after a failed check, the batch cannot be trusted to show what to undo
        if self._is_settled:
            return
        known = self.requests | self._ended
        self._drop_new_tokens(known)
        self.finished_req_ids -= self._ended.keys()
        self.requests.clear()
        self.requests.update(sorted(known.items(), key=lambda pair: self._arrival_of[pair[0]]))
        self.settle_update()

    def settle_update(self) -> None:
        """Make the last update final, because every check of its step has passed. After this, the update can no longer
        be undone."""
        self._is_settled = True
        for request_id in self._ended:
            if request_id not in self.requests:  # a new request may have its id
                self._arrival_of.pop(request_id, None)
        self._in_update, self._ended = {}, {}

    def recover(self) -> None:
        """Undo a step that raised: roll it back if only the forward pass failed, otherwise restart.

        With a connector, always restart, because it is unknown which blocks were loaded and saved.
        """
        if self._to_roll_back is None or self.gates.has_connector:
            self.restart()
        else:
            self._roll_back(self._to_roll_back)
            self._to_roll_back = None

    def restart(self) -> None:
        """Requeue every unfinished request in order of arrival, with new, empty parts.

        The old parts are discarded, including any half-done change to a queue, a block table or the cache. Only
        `requests` must be correct, because recomputing a request from its first token always yields the correct text.
        Tokens of a half-applied update are dropped and sampled again.
        """
        self._to_roll_back = None
        if self._is_half_updated:
            self._drop_new_tokens(self.requests)
            self._is_half_updated = False
        self.settle_update()
        self._arrival_of = {name: next(self._arrivals) for name in self.requests}
        self.running.clear()
        self._use(self._make_parts())
        for request in self.requests.values():
            request.restart()
            request.block_hashes.clear()
            self.prefix_cache.update_block_hashes(request)
            self.waiting.add_request(request)

    def _apply(
        self, scheduler_output: SchedulerOutput, sampled_token_ids: dict[str, list[int]]
    ) -> dict[str, list[int]]:
        return self.functions.update_from_output(
            scheduler_output,
            sampled_token_ids,
            self.requests,
            self.running,
            max_model_len=self.max_model_len,
            kv=self.kv,
        )

    def _roll_back(self, batch: list[ScheduledRequest]) -> None:
        """Move the requests of a batch that was never computed to the front of the waiting queue, in order.

        These requests start again from their first token, because blocks that the batch should have filled may already
        be shared. The prefix cache still holds their earlier blocks. Later running requests outside the batch are also
        moved to the front, to keep the order of arrival.
        """
        num_computed_before = {scheduled.request.request_id: scheduled.num_computed_tokens for scheduled in batch}
        for scheduled in batch:
            if scheduled.request.is_finished:
                # it was aborted during the forward pass, and its tokens were already counted as computed
                num_full_blocks = scheduled.num_computed_tokens // self.kv.block_size
                for table in scheduled.block_tables or [scheduled.block_ids]:
                    self.prefix_cache.drop_uncomputed(table[num_full_blocks:])
        places = [place for place, request in enumerate(self.running) if request.request_id in num_computed_before]
        undone = self.running[places[0] :] if places else []
        del self.running[len(self.running) - len(undone) :]
        for request in reversed(undone):
            self.kv.free(request, num_computed_before.get(request.request_id, request.num_computed_tokens))
            request.restart()
            self.waiting.prepend_request(request)

    def _drop_new_tokens(self, requests: Mapping[str, Request]) -> None:
        for request_id, num_tokens in self._num_tokens_before.items():
            if request_id in requests:
                del requests[request_id].all_token_ids[num_tokens:]

    def _use(self, parts: SchedulerParts) -> None:
        self.functions, self.kv, self.prefix_cache = parts.functions, parts.kv, parts.prefix_cache
        self.preemption, self.chunks = parts.preemption, parts.chunks
        self.waiting, self.ahead, self.gates = parts.waiting, parts.ahead, parts.gates
        self._groups, self.release = parts.groups, parts.release

    def _forget(self, request_id: str) -> None:
        request = self.requests.pop(request_id)
        self.finished_req_ids.add(request_id)
        if self._is_settled:
            self._arrival_of.pop(request_id, None)
        else:
            self._ended[request_id] = request
