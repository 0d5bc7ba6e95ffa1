"""The message of a step, as vLLM's workers read it: of a new request everything, of the others what has changed."""

from collections.abc import Mapping, Sequence

from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput
from vllm.v1.request import Request as VllmRequest

from mini_vllm.core import step as own


class Workers:
    """What the workers have been told of each request. (vLLM: `NewRequestData`, `CachedRequestData`.)"""

    def __init__(self) -> None:
        self.in_last_step: set[str] = set()
        self._known: set[str] = set()
        self._num_blocks: dict[str, int] = {}  # by request; none for one that is new or was preempted

    def forget(self, name: str) -> None:
        """A request has ended."""
        self._known.discard(name)
        self._num_blocks.pop(name, None)

    def lose_blocks(self, name: str) -> None:
        """A request was preempted: its next block table is sent whole."""
        self._num_blocks.pop(name, None)

    def message(
        self,
        plan: own.SchedulerOutput,
        shares: Sequence[own.ScheduledRequest],
        requests: Mapping[str, VllmRequest],
        finished_req_ids: set[str],
    ) -> SchedulerOutput:
        """Return the message of a plan. The requests' `num_computed_tokens` are as before the step."""
        new = [share for share in shares if share.request.request_id not in self._known]
        old = [share for share in shares if share.request.request_id in self._known]
        resumed = [share for share in old if share.request.request_id not in self._num_blocks]
        continued = [share for share in old if share.request.request_id in self._num_blocks]
        message = SchedulerOutput(
            scheduled_new_reqs=[self._whole(share, requests[share.request.request_id]) for share in new],
            scheduled_cached_reqs=self._changes(continued, resumed),
            num_scheduled_tokens=dict(plan.num_scheduled_tokens),
            total_num_scheduled_tokens=plan.total_num_scheduled_tokens,
            scheduled_spec_decode_tokens={name: list(ids) for name, ids in plan.scheduled_spec_decode_tokens.items()},
            scheduled_encoder_inputs={},
            num_common_prefix_blocks=[0],
            preempted_req_ids={one.victim_id for one in plan.preempted},
            finished_req_ids=finished_req_ids,
            free_encoder_mm_hashes=[],
        )
        self.in_last_step = set(plan.num_scheduled_tokens)
        return message

    def _whole(self, share: own.ScheduledRequest, request: VllmRequest) -> NewRequestData:
        self._known.add(request.request_id)
        self._num_blocks[request.request_id] = len(share.block_ids)
        return NewRequestData.from_request(request, (list(share.block_ids),))

    def _changes(self, continued: list[own.ScheduledRequest], resumed: list[own.ScheduledRequest]) -> CachedRequestData:
        changes = CachedRequestData.make_empty()
        changes.resumed_req_ids = {share.request.request_id for share in resumed}
        for share in (*continued, *resumed):
            twin, name = share.request, share.request.request_id
            fresh = share.block_ids[self._num_blocks.get(name, 0) :]
            self._num_blocks[name] = len(share.block_ids)
            changes.req_ids.append(name)
            changes.new_block_ids.append((list(fresh),) if fresh else None)
            changes.num_computed_tokens.append(share.num_computed_tokens)
            # The token that this very step will bring is a placeholder of ours already, and not yet one of vLLM's.
            num_pending = twin.num_output_placeholders - bool(twin.num_output_placeholders and share.needs_token)
            changes.num_output_tokens.append(twin.num_output_tokens + num_pending)
            if name not in self.in_last_step:
                changes.all_token_ids[name] = list(twin.all_token_ids)
        return changes
