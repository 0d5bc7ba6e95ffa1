"""A clock that only a runner moves: how long a step would take on a machine that one formula describes.

`StepCost` is an illustration, not a measurement. Its constants are round figures for a model of 1.5 billion
2-byte weights on a small GPU with 600 GB/s of memory bandwidth and 125 TFLOP/s, used to half. A roofline of
real GPUs and models is in `simulator/`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.seams.interfaces import ModelRunner

SECONDS_PER_STEP = 5e-3
"""Read all weights once: 3 GB at 600 GB/s."""
SECONDS_PER_TOKEN = 50e-6
"""Compute one token: 3 GFLOP at 60 TFLOP/s."""
SECONDS_PER_CONTEXT_TOKEN = 50e-9
"""Read K and V of one token that is attended to: 28 KB at 600 GB/s."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step takes, in seconds: a fixed part, a part per token, a part per token of context read."""

    per_step: float = SECONDS_PER_STEP
    per_token: float = SECONDS_PER_TOKEN
    per_context_token: float = SECONDS_PER_CONTEXT_TOKEN

    def seconds(self, batch: Sequence[ScheduledRequest]) -> float:
        """Return how long the batch takes."""
        num_tokens = sum(row.num_scheduled_tokens for row in batch)
        num_context_tokens = sum(row.num_computed_tokens + row.num_scheduled_tokens for row in batch)
        return self.per_step + self.per_token * num_tokens + self.per_context_token * num_context_tokens


class BatchCost(Protocol):
    """What a batch takes, in seconds."""

    def seconds(self, batch: Sequence[ScheduledRequest]) -> float: ...


class VirtualClock:
    """Seconds since the start of a simulation. It stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def advance_to(self, time: float) -> None:
        """Sleep until `time`, if that is still to come."""
        self.now = max(self.now, time)


class TimedRunner:
    """Passes batches on to a runner and moves the clock by what they cost."""

    def __init__(self, inner: ModelRunner, clock: VirtualClock, cost: BatchCost) -> None:
        self.inner = inner
        self.vocab_size = inner.vocab_size
        self.clock, self.cost = clock, cost

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        self.clock.advance(self.cost.seconds(batch))
        return self.inner.execute_model(batch)


class EndingRunner:
    """Lets every answer end after a length that is fixed in advance, with the token `end`.

    Whoever speaks, the same requests then end in the same steps: what differs between two runs is the
    engine and not the text.
    """

    def __init__(self, inner: ModelRunner, lengths: dict[str, int], end: int) -> None:
        self.inner = inner
        self.vocab_size = inner.vocab_size
        self.lengths, self.end = lengths, end

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        output = self.inner.execute_model(batch)
        for row in batch:
            request = row.request
            if row.needs_token and request.num_output_tokens + 1 == self.lengths[request.request_id]:
                output.sampled_token_ids[request.request_id] = [self.end]
        return output
