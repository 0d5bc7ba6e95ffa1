"""Detects silent errors in an engine's parts while it serves, using at most 2% of the time."""

import logging
import time
from collections.abc import Callable

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.invariants import (
    check_cache,
    check_pool,
    check_queues,
    check_request,
    check_sharing,
    leak_of,
    order_error,
)
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.step_checks import InvariantError
from mini_vllm.engine.observers import StepObserver, StepResult

SECONDS_BETWEEN_CHECKS = 1.0
NUM_CHECKS_WITHOUT_PROGRESS = 6
MAX_SHARE = 0.02
Progress = tuple[int, int, int]
logger = logging.getLogger(__name__)


class PeriodicChecker(StepObserver):
    """Checks the whole state about once a second.

    Raises `InvariantError`. A leak or a wrong order of service, neither of which corrupts text, is only logged.

    The checker also detects a request that gets no tokens for `NUM_CHECKS_WITHOUT_PROGRESS` checks in a row. Every step
    in between must have had token budget left, and also free blocks and request slots if the request is first in the
    queue.
    """

    def __init__(self, scheduler: Scheduler, clock: Callable[[], float] = time.monotonic) -> None:
        self.scheduler = scheduler
        self.clock = clock
        self._due = clock() + SECONDS_BETWEEN_CHECKS
        self._logged = dict[str, str]()
        self._progress: dict[Request, tuple[Progress, int]] = {}
        self._num_idle_steps = 0
        self._min_budget_left, self._min_free_blocks = scheduler.max_num_batched_tokens, scheduler.kv.num_usable_blocks

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        self._num_idle_steps += not scheduler_output.num_scheduled_tokens
        self._min_budget_left = min(self._min_budget_left, scheduler_output.token_budget)
        self._min_free_blocks = min(self._min_free_blocks, self.scheduler.kv.num_free_blocks)

    def after_update(self, result: StepResult) -> None:
        scheduler, began = self.scheduler, self.clock()
        if len(scheduler.running) + len(scheduler.waiting) == len(scheduler.requests) and began < self._due:
            return
        check_queues(scheduler, "priority")  # a wrong order is only logged
        self._log_once("order", order_error(scheduler))
        for request in scheduler.requests.values():
            check_request(request, scheduler)
        self._check_blocks()
        self._check_progress()
        now = self.clock()
        self._due = now + max(SECONDS_BETWEEN_CHECKS, (now - began) / MAX_SHARE)

    def step_undone(self) -> None:
        self._begin_interval({})

    def _check_blocks(self) -> None:
        leak = leak_of(self.scheduler)
        self._log_once("leak", leak)
        if not leak:
            check_pool(self.scheduler)
        check_sharing(self.scheduler)
        check_cache(self.scheduler)

    def _log_once(self, what: str, error: str) -> None:
        """Log an error unless the last check has already found one of the same kind."""
        if error and not self._logged.get(what):
            logger.error("%s", error)
        self._logged[what] = error

    def _check_progress(self) -> None:
        now = {request: _progress(request) for request in self._served_next()}
        for request, progress in now.items():
            before, count = self._progress.get(request, (progress, 0))
            is_stuck = _is_stuck(before, progress) and self._min_budget_left > 0 and not self._num_idle_steps
            self._progress[request] = progress, count + 1 if is_stuck else 0
            if self._progress[request][1] >= NUM_CHECKS_WITHOUT_PROGRESS:
                name, what = request.request_id, "runs" if request in self.scheduler.running else "waits first in line"
                cause = "`schedule_step` (phase 1) or `num_new_tokens` (phase 5) passes it over"
                if before[2] < progress[2]:
                    cause = "`schedule_step` (phase 1) or `make_room` (phase 3) preempts it although blocks are free"
                raise InvariantError(
                    f"{name} {what} and got no token in {NUM_CHECKS_WITHOUT_PROGRESS} seconds, although every step had "
                    f"at least {self._min_budget_left} tokens left in its budget. {cause}",
                    request_ids=[name],
                )
        self._begin_interval({request: self._progress[request] for request in now})

    def _served_next(self) -> list[Request]:
        """Return the requests that a step with token budget left must serve, if the rules are unambiguous about
        them."""
        scheduler, kv = self.scheduler, self.scheduler.kv
        num_for_step = len(scheduler.running) + cdiv(scheduler.max_num_batched_tokens, kv.block_size)
        due = list(scheduler.running) if self._min_free_blocks > num_for_step else []
        has_seat = len(scheduler.running) < scheduler.max_num_seqs
        if has_seat and len(scheduler.waiting) and not scheduler.gates.passes_over and scheduler.release is None:
            first = scheduler.waiting.peek_request()
            num_needed = cdiv(first.num_tokens + scheduler.num_spare_tokens, kv.block_size)
            num_promised = sum(cdiv(one.num_tokens, kv.block_size) + 1 for one in scheduler.running)
            if self._min_free_blocks >= num_needed + num_promised and self._min_budget_left >= first.num_tokens:
                due.append(first)
        return due

    def _begin_interval(self, progress: dict[Request, tuple[Progress, int]]) -> None:
        self._progress, self._num_idle_steps = progress, 0
        self._min_budget_left = self.scheduler.max_num_batched_tokens
        self._min_free_blocks = self.scheduler.kv.num_usable_blocks


def _is_stuck(before: Progress, now: Progress) -> bool:
    """Return whether a request gained no token, and either computed none or was preempted, although blocks were always
    free."""
    return now == before or (now[1] == before[1] and now[2] > before[2])


def _progress(request: Request) -> Progress:
    return request.num_computed_tokens, request.num_tokens, request.num_preemptions
