"""A runner that loads and saves blocks before the forward pass of each step."""

from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.electives.gates.connector import BlockStore, KVConnector, KVConnectorMetadata, KVConnectorWorker


class TransferringRunner:
    """Combines the runner with a connector's transfers in a step. (vLLM: `KVConnectorModelRunnerMixin`.)

    With `results_are_late` the next step is planned before this step's lost blocks are known.
    """

    def __init__(
        self, inner: ModelRunner, worker: KVConnectorWorker, store: BlockStore, *, results_are_late: bool
    ) -> None:
        self.inner = inner
        self.worker = worker
        self.store = store
        self.results_are_late = results_are_late
        self._void: KVConnector | None = None

    def of_step(self, connector: KVConnector) -> "StepWithTransfers":
        """Return a runner for the step that has just been planned."""
        return StepWithTransfers(self, connector, connector.build_connector_meta())

    def run(self, step: "StepWithTransfers", batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Transfer a step's blocks, then compute its batch. Raises `RuntimeError` after a failed step or lost
        blocks."""
        if step.connector is self._void:
            raise RuntimeError("the previous step failed or lost blocks, so its results must not be saved")
        try:
            transfers = self.worker.start_step(step.metadata)
            output = self.inner.execute_model(batch) if batch else ModelRunnerOutput({})
        except BaseException:
            self._void = step.connector
            raise
        if self.results_are_late and transfers.invalid_block_ids:
            self._void = step.connector
        output.kv_connector_output = transfers
        return output


@dataclass(frozen=True, slots=True)
class StepWithTransfers:
    """A `ModelRunner` for one step. Unlike other runners it is also called for an empty batch."""

    runner: TransferringRunner
    connector: KVConnector
    metadata: KVConnectorMetadata

    @property
    def vocab_size(self) -> int:
        return self.runner.inner.vocab_size

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        return self.runner.run(self, batch)


def run_step(runner: ModelRunner, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
    """Compute a batch unless it is empty; a step with transfers runs even with an empty batch."""
    if batch or isinstance(runner, StepWithTransfers):
        return runner.execute_model(batch)
    return ModelRunnerOutput({})
