"""A runner that loads and saves blocks before the forward pass of each step."""

from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.electives.gates.connector import BlockStore, KVConnector, KVConnectorMetadata, KVConnectorWorker


class TransferringRunner:
    """Binds the runner to what a connector plans for a step. (vLLM: `KVConnectorModelRunnerMixin`.)

    `results_are_late`: the next step is planned before it is known which blocks this one has lost.
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
        """Return the runner of the step that has just been planned."""
        return StepWithTransfers(self, connector, connector.build_connector_meta())

    def run(self, step: "StepWithTransfers", batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Move the blocks of a step, then compute its batch. Raises `RuntimeError` after a step that is void."""
        if step.connector is self._void:
            raise RuntimeError("the step before this one failed or lost blocks; what it computed must not be saved")
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
    """A `ModelRunner` for one step. Unlike others it is called for an empty batch, too."""

    runner: TransferringRunner
    connector: KVConnector
    metadata: KVConnectorMetadata

    @property
    def vocab_size(self) -> int:
        return self.runner.inner.vocab_size

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        return self.runner.run(self, batch)


def run_step(runner: ModelRunner, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
    """Compute a batch if there is one; a step with transfers has something to do without."""
    if batch or isinstance(runner, StepWithTransfers):
        return runner.execute_model(batch)
    return ModelRunnerOutput({})
