"""Observers of an engine: called at fixed points of a step, they change nothing."""

from collections.abc import Mapping, Sequence

from mini_vllm.config import Policy
from mini_vllm.core.invariants import check_drained, check_state, check_step
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput


class StepObserver:
    """Does nothing at each point. Override the methods you need."""

    def request_added(self, request_id: str) -> None:
        """A request was queued."""

    def request_aborted(self, request_id: str) -> None:
        """A request was ended by `abort_request`."""

    def before_schedule(self) -> None:
        """A step begins."""

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        """The step is planned."""

    def step_started(self) -> None:
        """The step is being computed, and there is no step before it whose tokens could be applied."""

    def after_update(
        self,
        sampled_token_ids: dict[str, list[int]],
        kept: dict[str, list[int]],
        ended: Sequence[Request],
        drafts: Mapping[str, list[int]],
    ) -> None:
        """The tokens of the oldest step in flight were applied, stop strings included.

        `ended` are the requests that it finished, `drafts` those that the requests got for their next step.
        """

    def step_undone(self) -> None:
        """The step raised, or nothing could be scheduled: it counts as not taken."""


class Observers(StepObserver):
    """Forwards every call to several observers, in order."""

    def __init__(self, observers: Sequence[StepObserver]) -> None:
        self.observers = tuple(observers)

    def request_added(self, request_id: str) -> None:
        for observer in self.observers:
            observer.request_added(request_id)

    def request_aborted(self, request_id: str) -> None:
        for observer in self.observers:
            observer.request_aborted(request_id)

    def before_schedule(self) -> None:
        for observer in self.observers:
            observer.before_schedule()

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        for observer in self.observers:
            observer.after_schedule(scheduler_output)

    def step_started(self) -> None:
        for observer in self.observers:
            observer.step_started()

    def after_update(
        self,
        sampled_token_ids: dict[str, list[int]],
        kept: dict[str, list[int]],
        ended: Sequence[Request],
        drafts: Mapping[str, list[int]],
    ) -> None:
        for observer in self.observers:
            observer.after_update(sampled_token_ids, kept, ended, drafts)

    def step_undone(self) -> None:
        for observer in self.observers:
            observer.step_undone()


class InvariantChecker(StepObserver):
    """Raises `InvariantError` as soon as a plan or the state after a step is inconsistent."""

    def __init__(self, scheduler: Scheduler, policy: Policy) -> None:
        self.scheduler = scheduler
        self.policy = policy

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        check_step(self.scheduler, scheduler_output)

    def after_update(
        self,
        sampled_token_ids: dict[str, list[int]],
        kept: dict[str, list[int]],
        ended: Sequence[Request],
        drafts: Mapping[str, list[int]],
    ) -> None:
        check_state(self.scheduler, self.policy)
        if not self.scheduler.has_unfinished_requests():
            check_drained(self.scheduler)
