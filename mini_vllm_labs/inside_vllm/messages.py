"""Builds a step's message to vLLM's workers: new requests in full, and only the changes to the others."""

from collections.abc import Mapping, Sequence

from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput
from vllm.v1.request import Request

from mini_vllm.core import step as own


class WorkerState:
    """Tracks what the workers know about each request. (vLLM: `NewRequestData`, `CachedRequestData`.)"""

    def __init__(self) -> None:
        self.in_last_step: set[str] = set()
        self._num_blocks: dict[str, int] = {}  # keyed by request id; 0 after a preemption

    def forget(self, name: str) -> None:
        """Forget a finished request."""
        self._num_blocks.pop(name, None)

    def lose_blocks(self, name: str) -> None:
        """Record that a request was preempted, so that its next block table is sent in full."""
        self._num_blocks[name] = 0

    def message(
        self, plan: own.SchedulerOutput, shares: Sequence[own.ScheduledRequest], requests: Mapping[str, Request]
    ) -> SchedulerOutput:
        """Return the message for a plan.

        The requests' `num_computed_tokens` must still have the values from before planning.
        """
        new = [share for share in shares if share.request.request_id not in self._num_blocks]
        old = [share for share in shares if share.request.request_id in self._num_blocks]
        message = SchedulerOutput.make_empty()
        message.scheduled_new_reqs = [self._whole(share, requests[share.request.request_id]) for share in new]
        message.scheduled_cached_reqs = self._changes(old)
        message.num_scheduled_tokens = dict(plan.num_scheduled_tokens)
        message.total_num_scheduled_tokens = plan.total_num_scheduled_tokens
        drafts = plan.scheduled_spec_decode_tokens
        message.scheduled_spec_decode_tokens = {name: list(token_ids) for name, token_ids in drafts.items()}
        message.num_common_prefix_blocks = [0]
        message.preempted_req_ids = {one.victim_id for one in plan.preempted}
        self.in_last_step = set(plan.num_scheduled_tokens)
        return message

    def _whole(self, share: own.ScheduledRequest, request: Request) -> NewRequestData:
        self._num_blocks[request.request_id] = len(share.block_ids)
        return NewRequestData.from_request(request, (list(share.block_ids),))

    def _changes(self, shares: Sequence[own.ScheduledRequest]) -> CachedRequestData:
        changes = CachedRequestData.make_empty()
        for share in shares:
            twin, name = share.request, share.request.request_id
            if (num_known := self._num_blocks[name]) == 0:
                changes.resumed_req_ids.add(name)
            fresh = share.block_ids[num_known:]
            self._num_blocks[name] = len(share.block_ids)
            changes.req_ids.append(name)
            changes.new_block_ids.append((list(fresh),) if fresh else None)
            changes.num_computed_tokens.append(share.num_computed_tokens)
            # We already count a placeholder for the token that this step will sample; vLLM does not count one yet.
            num_pending = twin.num_output_placeholders - bool(twin.num_output_placeholders and share.needs_token)
            changes.num_output_tokens.append(twin.num_output_tokens + num_pending)
            if name not in self.in_last_step:
                changes.all_token_ids[name] = list(twin.all_token_ids)
        return changes
