"""What the scheduler asks and tells its gates in a step, and what it hears while there are none: nothing."""

from collections.abc import Mapping, Sequence

from mini_vllm.core.gates.connector import KVConnector, KVConnectorOutput
from mini_vllm.core.gates.gate import Gate
from mini_vllm.core.gates.kv_transfers import KVTransfers
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput


class NoGates:
    """Every waiting request may be admitted, and no K and V come from elsewhere."""

    passes_over = False
    gates: Sequence[Gate] = ()
    transfers: KVTransfers | None = None

    @property
    def awaits_others(self) -> bool:
        """Whether a step that plans nothing is no stall: a grammar or a transfer is under way outside the steps."""
        return False

    @property
    def connector(self) -> KVConnector | None:
        """The scheduler side of KV transfers; None without them. A restart replaces it."""
        return None if self.transfers is None else self.transfers.connector

    @property
    def requests_being_sent(self) -> Sequence[str]:
        """The ended requests whose blocks are held until their K and V have been sent elsewhere."""
        return () if self.transfers is None else tuple(self.transfers.sending)

    def take_errors(self) -> dict[str, str]:
        """Return why waiting requests can never be admitted, by request id, since the last call."""
        return {}

    def start_step(self) -> None:
        """Forget the last step."""

    def end_plan(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """Phase 1 has made its plan; its tokens do not count as computed yet."""

    def advanced(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """The tokens of the plan count as computed."""

    def without_lost(
        self, sampled: dict[str, list[int]], output: KVConnectorOutput | None, running: Sequence[Request]
    ) -> dict[str, list[int]]:
        """Return the sampled tokens without those of requests whose blocks were lost under them."""
        return sampled

    def end_step(self, output: KVConnectorOutput | None, *, is_idle: bool, has_sampled: bool) -> None:
        """The tokens of a step are applied."""
