"""The asynchronous engine plans the next step and writes the previous step's text while a step is computed.

    engine   plan t + 1 | wait for t | apply t, text | plan t + 2 | wait for t + 1 | ...
    runner   compute t ..............| compute t + 1 .............................| ...

vLLM: `step_with_batch_queue` in `v1/engine/core.py`.
"""

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest, SchedulerOutput
from mini_vllm.engine.engine_parts import EngineParts
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.runner_answer import only
from mini_vllm.engine.runner_thread import RunnerThread
from mini_vllm.outputs import RequestOutput


@dataclass(frozen=True, slots=True)
class StepInFlight:
    """A planned step and its pending result."""

    scheduler_output: SchedulerOutput
    batch: list[ScheduledRequest]
    result: Future[ModelRunnerOutput]


class OverlappingEngine(LLMEngine):
    """An `LLMEngine` that plans one step ahead of its runner. Needs phase 8."""

    def __init__(self, parts: EngineParts, runner_thread: RunnerThread) -> None:
        super().__init__(parts)
        self.runner_thread = runner_thread
        self._in_flight: deque[StepInFlight] = deque()

    def step(self) -> list[RequestOutput]:
        """Start a step, then apply the previous step and return its outputs; the first call returns an empty list.

        Raises the runner's error from the applied step; all steps in flight are then undone.
        """
        with self._undoing(self._start_over):
            scheduler_output = self._plan()
            batch = self._start(scheduler_output)
            result = self.runner_thread.start(self._runner_of_step(), batch)
            self._in_flight.append(StepInFlight(scheduler_output, batch, result))
            if len(self._in_flight) > 1:
                return self._finish(self._in_flight[0])
            for observer in self.observers:
                observer.step_started()
            return []

    def _finish(self, step: StepInFlight) -> list[RequestOutput]:
        self._in_step = list(step.scheduler_output.num_scheduled_tokens)
        result = step.result.result()
        if result.kv_connector_output is not None and result.kv_connector_output.invalid_block_ids:
            return self._compute_lost_blocks()
        # A request may have ended since the step was planned, and a new request may have the same id.
        requests = {one.request.request_id: one.request for one in step.batch}
        living = {name for name, request in requests.items() if self.scheduler.requests.get(name) is request}
        # The runner keeps the drafts, because the scheduler planned placeholders for them.
        runner_output = ModelRunnerOutput(
            only(living, result.sampled_token_ids),
            only(living, result.errors),
            logprobs=only(living, result.logprobs),
            kv_connector_output=result.kv_connector_output,
        )
        outputs = self._update(step.scheduler_output, runner_output)
        self._in_flight.popleft()
        return outputs

    def _compute_lost_blocks(self) -> list[RequestOutput]:
        """Restart all requests, because the step that was planned in the meantime reads blocks that were not loaded."""
        self._start_over()
        for observer in self.observers:
            observer.step_undone()
        return []

    def _awaits_results(self) -> bool:
        return any(step.batch for step in self._in_flight)

    def _start_over(self) -> None:
        for step in self._in_flight:
            step.result.cancel()
        self._in_flight.clear()
        self.runner_thread.forget()
        super()._start_over()
