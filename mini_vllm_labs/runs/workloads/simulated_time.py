"""Simulated time: a clock that a runner advances by the cost of each step, computed from a formula.

`StepCost` is an illustration, not a measurement. Its constants are round figures for a model of 1.5 billion 2-byte
weights on a small GPU with 600 GB/s of memory bandwidth and 125 TFLOP/s at half utilisation. A roofline for real GPUs
and models is in `mini_vllm_labs/simulation/`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest

SECONDS_PER_STEP = 5e-3  # reading all weights once: 3 GB at 600 GB/s
SECONDS_PER_TOKEN = 50e-6  # computing one token: 3 GFLOP at 60 TFLOP/s
SECONDS_PER_CONTEXT_TOKEN = 50e-9  # reading the K and V of one attended token: 28 KB at 600 GB/s


@dataclass(frozen=True, slots=True)
class StepCost:
    """A step's time in seconds: a fixed cost, a cost per token, and a cost per token of context."""

    per_step: float = SECONDS_PER_STEP
    per_token: float = SECONDS_PER_TOKEN
    per_context_token: float = SECONDS_PER_CONTEXT_TOKEN

    def seconds(self, batch: Sequence[ScheduledRequest]) -> float:
        num_tokens = sum(row.num_scheduled_tokens for row in batch)
        num_context_tokens = sum(row.num_computed_tokens + row.num_scheduled_tokens for row in batch)
        return self.per_step + self.per_token * num_tokens + self.per_context_token * num_context_tokens


class BatchCost(Protocol):
    """Computes a batch's time in seconds."""

    def seconds(self, batch: Sequence[ScheduledRequest]) -> float: ...


class VirtualClock:
    """Seconds since the start of a simulation, advanced only by its methods."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def advance_to(self, time: float) -> None:
        """Advance to `time` if it is later than now."""
        self.now = max(self.now, time)


class TimedRunner:
    """Passes batches to a runner and advances the clock by their cost."""

    def __init__(self, inner: ModelRunner, clock: VirtualClock, cost: BatchCost) -> None:
        self.inner = inner
        self.vocab_size = inner.vocab_size
        self.clock, self.cost = clock, cost

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        self.clock.advance(self.cost.seconds(batch))
        return self.inner.execute_model(batch)


class EndingRunner:
    """Ends every output after a fixed length with the token `end`.

    Requests then finish in the same steps with every model, so two runs differ only in the engine.
    """

    def __init__(self, inner: ModelRunner, lengths: dict[str, int], end: int) -> None:
        self.inner = inner
        self.vocab_size = inner.vocab_size
        self.lengths, self.end = lengths, end

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        output = self.inner.execute_model(batch)
        for request in (row.request for row in batch if row.needs_token):
            num_left = self.lengths[request.request_id] - request.num_output_tokens
            token_ids = output.sampled_token_ids[request.request_id]
            if 0 < num_left <= len(token_ids):
                token_ids[num_left - 1 :] = [self.end]
        return output
