"""The runner's thread computes one step while the engine plans the next."""

import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import replace

from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.request import Request
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.electives.async_scheduling import CorrectShare
from mini_vllm.electives.gates.transferring_runner import run_step
from mini_vllm.engine.runner_answer import checked_answer

# Every call into torch releases the GIL. Reacquiring the GIL may take this long while the engine's thread writes text.
# With Python's default of 5 ms, running with a step in flight was slower on a GPU than running without one (`mini-vllm
# bench gpu in-flight`).
SWITCH_SECONDS = 0.0005


class TokensInFlight:
    """Stores the runner's copies of requests, with tokens that the scheduler does not know yet.

    Each step is planned before the previous step has finished. The previous step's sampled and rejected tokens
    therefore reach the runner through these copies, not through the scheduler. (vLLM: `InputBatch` in
    `v1/worker/gpu_input_batch.py`.)
    """

    def __init__(self, correct_share: CorrectShare) -> None:
        self.correct_share = correct_share
        self._copies: dict[Request, Request] = {}
        self._num_rejected: dict[str, int] = {}
        self._failed: frozenset[str] = frozenset()

    def hand_over(self, batch: Sequence[ScheduledRequest]) -> list[ScheduledRequest]:
        """Return a copy of a batch that stays unchanged while the batch is computed. Called by the engine's thread."""
        if len(self._copies) > 2 * len(batch) + 64:
            self._copies = {request: own for request, own in self._copies.items() if not request.is_finished}
        return [replace(one, request=self._own(one.request), block_ids=list(one.block_ids)) for one in batch]

    def execute_model(self, runner: ModelRunner, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Compute a batch that `hand_over` returned. Called by the runner's thread, one batch at a time.

        Raises `RunnerError` if the output does not match the batch.
        """
        planned = [one for one in batch if not self._has_ended(one.request)]
        corrected = [self._correct(one) for one in planned]
        output = checked_answer(corrected, run_step(runner, corrected), runner.vocab_size)
        self._num_rejected = {}
        for scheduled in planned:
            request = scheduled.request
            if sampled := output.sampled_token_ids.get(request.request_id):
                request.all_token_ids += sampled
                request.spec_token_ids = output.draft_token_ids.get(request.request_id, [])
                self._num_rejected[request.request_id] = len(scheduled.draft_token_ids) - (len(sampled) - 1)
        self._failed = frozenset(output.errors)
        return output

    def _has_ended(self, request: Request) -> bool:
        """Return whether the previous step ended a request that is already planned in this step."""
        is_over = request.num_output_tokens >= request.sampling_params.max_tokens
        return is_over or request.request_id in self._failed

    def _own(self, request: Request) -> Request:
        if request not in self._copies:
            self._copies[request] = own = copy(request)
            own.all_token_ids = list(request.all_token_ids)
        return self._copies[request]

    def _correct(self, scheduled: ScheduledRequest) -> ScheduledRequest:
        num_rejected = self._num_rejected.get(scheduled.request.request_id, 0)
        if not scheduled.draft_token_ids and not num_rejected:
            return scheduled
        corrected = self.correct_share(scheduled, num_rejected, scheduled.request.spec_token_ids)
        return replace(corrected, block_tables=scheduled.block_tables)  # phase 8 supports only one table


class RunnerThread:
    """Computes steps in order on one thread, which stops when this object is deleted."""

    def __init__(self, correct_share: CorrectShare) -> None:
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        self.correct_share = correct_share
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mini-vllm-runner")
        self._tokens = TokensInFlight(correct_share)

    def start(self, runner: ModelRunner, batch: Sequence[ScheduledRequest]) -> Future[ModelRunnerOutput]:
        """Compute a batch after all earlier batches. The future raises the runner's error."""
        tokens = self._tokens
        return self._executor.submit(tokens.execute_model, runner, tokens.hand_over(batch))

    def forget(self) -> None:
        """Drop the copies, so that steps started so far do not affect later ones."""
        self._tokens = TokensInFlight(self.correct_share)
