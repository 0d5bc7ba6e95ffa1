"""Simulates the recordings' connector: which K and V are stored externally, and when transfers finish."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm.core.step import KVConnectorOutput
from mini_vllm.electives.gates.connector import KVConnectorMetadata


class RecordedConnector:
    """The `KVConnector` described in `traces/README.md`. It moves no data.

    `step` counts the outputs so far; when a request ends, its transfer is due at a later output. With
    `reports_aborted`, an aborted load is reported like any other.
    """

    def __init__(
        self, described: Mapping[str, Any], block_size: int, *, is_async: bool, reports_aborted: bool = False
    ) -> None:
        self.reports_aborted = reports_aborted
        self.described = described
        self.block_size = block_size
        self.is_async = is_async
        self.step = 0
        self._num_loads: Counter[str] = Counter()
        self._due_loads: list[tuple[int, str, list[int]]] = []
        self._due_sends: list[tuple[int, str]] = []

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        num_stored = self.described[request.request_id].get("stored", 0)
        num_usable = (request.num_tokens - 1) // self.block_size * self.block_size
        num_external = max(0, min(num_stored, num_usable) - num_computed_tokens)
        return num_external, self.is_async and num_external > 0

    def update_state_after_alloc(self, request: Request, block_ids: Sequence[int], num_external_tokens: int) -> None:
        if not (self.is_async and num_external_tokens):
            return
        described = self.described[request.request_id]
        self._num_loads[request.request_id] += 1
        external = list(block_ids)[len(block_ids) - num_external_tokens // self.block_size :]
        is_first = self._num_loads[request.request_id] == 1
        lost = external[described["lost_from"] :] if is_first and "lost_from" in described else []
        self._due_loads.append((self.step + described["load_steps"], request.request_id, lost))

    def request_finished(self, request: Request, block_ids: Sequence[int]) -> bool:
        described = self.described[request.request_id]
        if self.reports_aborted and any(load[1] == request.request_id for load in self._due_loads):
            ended = [(due, name, [] if name == request.request_id else lost) for due, name, lost in self._due_loads]
            self._due_loads = ended
            return False
        self._due_loads = [load for load in self._due_loads if load[1] != request.request_id]
        if not described.get("send") or not request.num_computed_tokens:
            return False
        self._due_sends.append((self.step + described["send_steps"], request.request_id))
        return True

    def request_preempted(self, request: Request, block_ids: Sequence[int], num_computed_tokens: int) -> None:
        """Do nothing, because nothing is saved."""

    def build_connector_meta(self) -> KVConnectorMetadata:
        return KVConnectorMetadata()

    def take_output(self) -> KVConnectorOutput | None:
        """Return the transfers that are completed by this step's output, or None if there are none."""
        received = [(request_id, lost) for due, request_id, lost in self._due_loads if due == self.step]
        due_sends = {request_id for due, request_id in self._due_sends if due == self.step}
        sent = [request_id for request_id in self.described if request_id in due_sends]
        self._due_loads = [load for load in self._due_loads if load[0] > self.step]
        self._due_sends = [send for send in self._due_sends if send[0] > self.step]
        self.step += 1
        if not received and not sent:
            return None
        invalid = frozenset(block_id for _, lost in received for block_id in lost)
        return KVConnectorOutput([request_id for request_id, _ in received], sent, invalid)
