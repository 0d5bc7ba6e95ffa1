"""Observers of an engine, which are called at fixed points of a step and change nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mini_vllm.config import Policy
from mini_vllm.core.invariants import check_drained, check_state, check_step
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import ScheduledRequest, SchedulerOutput
from mini_vllm.core.step_checks import check_samples


@dataclass(frozen=True, slots=True)
class StepResult:
    """The results of a step.

    `scheduler_output` was the step's plan. `kept` is `sampled_token_ids` without the tokens after a stop token or
    string. `ended` holds the requests that the step finished, and `drafts` holds the drafts for the next step.
    """

    scheduler_output: SchedulerOutput
    sampled_token_ids: Mapping[str, list[int]]
    kept: Mapping[str, list[int]]
    ended: Sequence[Request]
    drafts: Mapping[str, list[int]]


class StepObserver:
    """An observer that does nothing at any point. Override the methods that you need."""

    def request_added(self, request_id: str) -> None:
        """A request was queued."""

    def request_rejected(self) -> None:
        """A request was refused, because the waiting queue was full."""

    def request_aborted(self, request_id: str) -> None:
        """A request was ended by `abort_request`."""

    def priority_updated(self, request_id: str, priority: int) -> None:
        """A request's priority has changed."""

    def before_schedule(self) -> None:
        """A step begins."""

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        """The step has been planned."""

    def batch_started(self, batch: Sequence[ScheduledRequest]) -> None:
        """The plan has become a batch, which is about to be computed."""

    def step_started(self) -> None:
        """The step is being computed, and no earlier step has tokens to apply."""

    def after_update(self, result: StepResult) -> None:
        """The tokens of the oldest step in flight were applied, stop strings included."""

    def step_undone(self) -> None:
        """The step raised an error or nothing could be scheduled, so it counts as not taken."""


class DraftStatistics(StepObserver):
    """Counts accepted drafts: `num_accepted_tokens_per_pos[i]` is the number of times that draft i was accepted.

    `num_drafts` counts the requests with drafts in each step, and `num_draft_tokens` counts their drafts. (vLLM:
    `SpecDecodingStats` in `v1/spec_decode/metrics.py`.)
    """

    def __init__(self, num_speculative_tokens: int) -> None:
        self.num_drafts = 0
        self.num_draft_tokens = 0
        self.num_accepted_tokens_per_pos = [0] * num_speculative_tokens

    @property
    def num_accepted_tokens(self) -> int:
        return sum(self.num_accepted_tokens_per_pos)

    def after_update(self, result: StepResult) -> None:
        for request_id, draft_token_ids in result.scheduler_output.scheduled_spec_decode_tokens.items():
            if request_id in result.sampled_token_ids:
                self.num_drafts += 1
                self.num_draft_tokens += len(draft_token_ids)
                for position in range(len(result.sampled_token_ids[request_id]) - 1):
                    self.num_accepted_tokens_per_pos[position] += 1


class SampleChecker(StepObserver):
    """Raises `InvariantError` before a forward pass in which a request samples too early or too late."""

    def batch_started(self, batch: Sequence[ScheduledRequest]) -> None:
        check_samples(batch)


class InvariantChecker(StepObserver):
    """Raises `InvariantError` as soon as a plan or the state after a step is inconsistent."""

    def __init__(self, scheduler: Scheduler, policy: Policy) -> None:
        self.scheduler = scheduler
        self.policy = policy

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        check_step(self.scheduler, scheduler_output)

    def after_update(self, result: StepResult) -> None:
        check_state(self.scheduler, self.policy)
        if not self.scheduler.has_unfinished_requests():
            check_drained(self.scheduler)
