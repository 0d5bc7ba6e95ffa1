"""Records the step fields that occur only in recordings of gates and windows."""

from typing import Any

from mini_vllm.core.request import RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import KVConnectorOutput
from mini_vllm.core.step_record import ScheduledRecord
from mini_vllm.electives.gates.encoder_gate import EncoderGate
from mini_vllm.electives.gates.gated import encoder_of, transfers_of
from mini_vllm.electives.releases.step_state import StepState
from mini_vllm_labs.runs.parity.transfers import RecordedConnector

HELD = {RequestStatus.WAITING_FOR_FSM, RequestStatus.WAITING_FOR_REMOTE_KVS}


class GatesRecorder:
    """Collects one scenario's gate and window fields; a recording contains only the fields that its scenario uses."""

    def __init__(self, scheduler: Scheduler, connector: RecordedConnector | None) -> None:
        self.scheduler = scheduler
        self.connector = connector

    @property
    def _encoder(self) -> EncoderGate | None:
        return encoder_of(self.scheduler)

    def _name_of(self, status: RequestStatus) -> str:
        is_renamed = status is RequestStatus.WAITING_FOR_FSM and self.scheduler.release is not None
        return "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR" if is_renamed else status.name

    def after_schedule(self, scheduled: list[ScheduledRecord]) -> dict[str, Any]:
        """Return the fields of a plan, and add the fields of its shares in place."""
        fields: dict[str, Any] = {}
        transfers = transfers_of(self.scheduler)
        if transfers is not None:
            tables = self.scheduler.kv.block_ids
            fields["loading"] = [(name, number, list(tables(name))) for name, number in transfers.loading.items()]
        if self._encoder is not None:
            fields["encodings_freed"] = self._encoder.take_freed()
            for share in scheduled:
                if images := self._encoder.scheduled.get(share["id"]):
                    share["encode"] = list(images)
        if isinstance(step := self.scheduler.release, StepState) and step.speculative is not None:
            fields["skip_drafts"] = step.num_lookahead_tokens > 0 and not step.drafts_are_used
            fields["drafts_wanted"] = step.speculative.num_drafts(len(scheduled)) if scheduled else step.num_drafts
        for share in scheduled:
            groups = self.scheduler.block_tables(share["id"])
            if len(groups) > 1:
                share["sliding_blocks"] = list(groups[1])
        return fields

    def after_update(self, output: KVConnectorOutput | None) -> dict[str, Any]:
        """Return the fields for the end of a step."""
        fields: dict[str, Any] = {
            "held_after": [
                (request.request_id, self._name_of(request.status), request.num_computed_tokens)
                for request in self.scheduler.waiting
                if request.status in HELD
            ]
        }
        if isinstance(self.scheduler.release, StepState):
            fields["deferred_after"] = sorted(self.scheduler.release.deferred)
        if output is not None:
            fields["transfers"] = {
                "received": list(output.finished_recving),
                "sent": list(output.finished_sending),
                "invalid": sorted(output.invalid_block_ids),
            }
        if self._encoder is not None:
            cache = self._encoder.cache
            cached = {content: sorted(users) for content, users in cache.cached.items()}
            fields["encoder_after"] = {"free": cache.num_free_slots, "freeable": list(cache.freeable), "cached": cached}
        return fields
