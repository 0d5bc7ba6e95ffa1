"""The engine accepts requests, takes steps and returns outputs. (vLLM: `v1/engine/core.py` and `llm_engine.py`.)"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.invariants import check_queues
from mini_vllm.core.request import MultiModalFeatureSpec, Request, RequestStatus
from mini_vllm.core.service_level import BEST_EFFORT, ServiceLevel
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest, SchedulerOutput
from mini_vllm.core.step_checks import InvariantError, check_batch
from mini_vllm.electives.gates.gated import transfers_of
from mini_vllm.electives.gates.transferring_runner import run_step
from mini_vllm.engine.admission import require_acceptable
from mini_vllm.engine.control_stops import with_control_stops
from mini_vllm.engine.engine_parts import EngineParts
from mini_vllm.engine.errors import QueueFullError, RequestIdInUseError, StalledError
from mini_vllm.engine.observers import DraftStatistics, StepObserver, StepResult
from mini_vllm.engine.output_processor import OutputProcessor
from mini_vllm.engine.runner_answer import checked_answer, only
from mini_vllm.engine.structured_output import drop_grammar, grammar_of
from mini_vllm.engine.trace_recorder import TraceRecorder
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams

SECONDS_BETWEEN_LOOKS = 0.001
MAX_STEPS_TO_SEND = 8  # while a step is in flight, sending spans two steps


class LLMEngine:
    """Serves requests with one scheduler and one runner. `assembly/build.py` builds the engine."""

    def __init__(self, parts: EngineParts) -> None:
        self.config = parts.config
        self.scheduler = parts.scheduler
        self.runner = parts.runner
        self.tokenizer = parts.tokenizer
        self.observers = list(parts.observers)
        self.clock = parts.clock
        self.grammars = parts.grammars
        self.transfers = parts.transfers
        self.adapter_names = parts.adapter_names
        self.model_id = parts.model_id
        self.repetition_penalty = parts.repetition_penalty
        self.processor = OutputProcessor(parts.tokenizer)
        self._random = random.Random(parts.config.seed)
        self._in_step: list[str] = []
        self._held: Sequence[str] = ()
        self._idle_steps = 0
        self.last_failure = 0.0, ""  # the time (`time.monotonic`) at which a step failed, and its error

    @property
    def recorder(self) -> TraceRecorder:
        """The trace of every step. Raises `ValueError` if the engine was built without `record=True`."""
        for observer in self.observers:
            if isinstance(observer, TraceRecorder):
                return observer
        raise ValueError("this engine does not record steps: build it with record=True")

    def explain_steps(self) -> None:
        """Make the records of later steps say why requests got no tokens. Raises `ValueError` if the engine has no
        recorder."""
        # imported here, because few engines need these two modules
        from mini_vllm.engine.step_reasons import StepReasons

        self.recorder.reasons = StepReasons(self.scheduler, self.config)

    @property
    def draft_statistics(self) -> DraftStatistics | None:
        """Statistics about the drafts, or None if speculative decoding is off."""
        return next((one for one in self.observers if isinstance(one, DraftStatistics)), None)

    def add_observer(self, observer: StepObserver) -> None:
        """Call this observer in every step from now on."""
        self.observers.append(observer)

    def add_request(
        self,
        request_id: str,
        prompt: str | list[int],
        params: SamplingParams | None = None,
        *,
        priority: int = 0,
        cache_salt: str | None = None,
        adapter_id: str | None = None,
        mm_features: Sequence[MultiModalFeatureSpec] = (),
        tenant: str = "",
        service_level: ServiceLevel = BEST_EFFORT,
    ) -> None:
        """Queue a prompt (text or token ids), with an optional adapter, and images in place of some tokens.

        Raises `ValueError` if the request could never be served or `request_id` belongs to an unfinished request.
        Raises `QueueFullError` if `max_num_waiting` requests are waiting. An error leaves the engine unchanged.
        """
        params = params or SamplingParams()
        params.validate()
        if params.repetition_penalty is None:
            params = replace(params, repetition_penalty=self.repetition_penalty)
        params = with_control_stops(params, self.tokenizer.control_tokens)
        if request_id in self.processor.states:
            raise RequestIdInUseError.of(request_id)
        if not isinstance(prompt, str | list | tuple):
            raise ValueError(f"a prompt must be text or a list of integers, got {prompt!r:.80}")
        token_ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        now = self.clock()
        request = Request(
            request_id,
            token_ids,
            params,
            eos_token_ids=self.tokenizer.eos_token_ids,
            priority=priority,
            arrival_time=now,
            cache_salt=cache_salt,
            adapter_id=adapter_id,
            seed=self._random.getrandbits(63) if params.seed is None else params.seed,
            grammar=grammar_of(params, self.grammars),
            mm_features=tuple(mm_features),
            tenant=tenant,
            service_level=service_level,
        )
        try:
            require_acceptable(request, self.config, self.scheduler, self.runner.vocab_size, self.adapter_names)
        except ValueError as error:
            drop_grammar(request)
            for observer in self.observers if isinstance(error, QueueFullError) else ():
                observer.request_rejected()
            raise
        with self._undoing(partial(self._discard, request_id)):
            self.scheduler.add_request(request)
            self.processor.add_request(request, prompt if isinstance(prompt, str) else None, now)
            for observer in self.observers:
                observer.request_added(request_id)

    def abort_request(self, request_id: str, error: str | None = None) -> RequestOutput | None:
        """End a request early, with an optional `error`, and return its last output.

        Returns None if no request with this id has a pending output.
        """
        status = RequestStatus.FINISHED_ABORTED if error is None else RequestStatus.FINISHED_ERROR
        with self._undoing(self._start_over):
            if request_id not in self.processor.states:
                return None
            if (request := self.scheduler.finish_request(request_id, status)) is not None:
                drop_grammar(request)
                for observer in self.observers:
                    observer.request_aborted(request_id)
            now = self.clock()
            # An interrupted step may have missed a stop string, or may have ended a request without producing an
            # output.
            self._detokenize(request_id, now)
            return self.processor.output(request_id, now, error)

    def update_priority(self, request_id: str, priority: int) -> bool:
        """Change an unfinished request's priority; return False if no such request exists.

        Under `policy="priority"` the new priority affects the request's position in the queue and the choice of victims
        from the next step on. Raises `ValueError` unless the priority is an integer.
        """
        if type(priority) is not int:
            raise ValueError(f"priority must be an integer, got {priority!r}")
        with self._undoing(self._start_over):
            if not self.scheduler.update_priority(request_id, priority):
                return False
            for observer in self.observers:
                observer.priority_updated(request_id, priority)
        return True

    def requests_in_failed_step(self) -> list[str]:
        """Return the unfinished requests of the last failed step, or all requests if it failed before it was
        planned."""
        return [name for name in self._in_step if name in self.processor.states] or list(self.processor.states)

    def has_unfinished_requests(self) -> bool:
        return self.scheduler.has_unfinished_requests() or self.processor.is_behind or self._awaits_results()

    def step(self) -> list[RequestOutput]:
        """Plan a batch, run it, apply its tokens, and return an output for every request with new tokens.

        If anything raises (even Ctrl-C), the step is undone: its requests wait again, no block is lost, and the
        exception propagates. `step()` may then be called again. Raises `StalledError` if no later step could schedule
        anything.
        """
        with self._undoing(self.scheduler.recover):
            scheduler_output = self._plan()
            runner_output = self._run(self._start(scheduler_output))
            return self._update(scheduler_output, runner_output)

    def _plan(self) -> SchedulerOutput:
        self._in_step = []
        for observer in self.observers:
            observer.before_schedule()
        scheduler_output = self.scheduler.schedule()
        # If nothing was scheduled, all other requests are waiting for blocks that running requests hold.
        self._in_step = list(scheduler_output.num_scheduled_tokens) or [r.request_id for r in self.scheduler.running]
        for observer in self.observers:
            observer.after_schedule(scheduler_output)
        idle = not scheduler_output.num_scheduled_tokens and not scheduler_output.preempted
        is_paused = self.scheduler.release is not None and self.scheduler.release.is_paused
        if idle and self.scheduler.has_unfinished_requests() and not self._awaits_results() and not is_paused:
            gates = self.scheduler.gates
            self._require_sent(gates.requests_being_sent)
            if not gates.awaits_others and not gates.break_stall(self.scheduler.requests.values()):
                # forgotten requests do not stall the engine, because a restart puts them back in the queue
                check_queues(self.scheduler, "priority")
                raise StalledError.of(self.scheduler)
            time.sleep(SECONDS_BETWEEN_LOOKS)  # yields the processor to threads that are compiling or loading
        return scheduler_output

    def _require_sent(self, names: Sequence[str]) -> None:
        """Raise `StalledError` if these requests remain unsent over several idle steps, because a worker sends within
        one step."""
        self._idle_steps = self._idle_steps + 1 if names and names == self._held else 0
        self._held = names
        transfers = transfers_of(self.scheduler)
        if self._idle_steps > MAX_STEPS_TO_SEND and self.transfers is not None and transfers is not None:
            raise StalledError.of_held(transfers.take_held())

    def _start(self, scheduler_output: SchedulerOutput) -> list[ScheduledRequest]:
        self.processor.note_scheduled(scheduler_output.num_scheduled_tokens, self.clock())
        batch = self.scheduler.start_step(scheduler_output)
        release = self.scheduler.release
        check_batch(scheduler_output, batch, self.scheduler.kv, () if release is None else release.has_stand_ins)
        for observer in self.observers:
            observer.batch_started(batch)
        return batch

    def _run(self, batch: list[ScheduledRequest]) -> ModelRunnerOutput:
        runner_output = run_step(self._runner_of_step(), batch)
        return checked_answer(batch, runner_output, self.runner.vocab_size)

    def _runner_of_step(self) -> ModelRunner:
        planned = None if self.transfers is None else transfers_of(self.scheduler)
        return self.runner if self.transfers is None or planned is None else self.transfers.of_step(planned.connector)

    def _awaits_results(self) -> bool:
        """Return whether results of a started step have not been applied yet."""
        return False

    def _update(self, scheduler_output: SchedulerOutput, runner_output: ModelRunnerOutput) -> list[RequestOutput]:
        """Apply a step's tokens and turn them into outputs, including those that an interrupted step missed."""
        sampled = runner_output.sampled_token_ids
        kept = self.scheduler.update_from_output(scheduler_output, sampled, runner_output.kv_connector_output)
        self.scheduler.check_update(sampled, kept)
        now = self.clock()
        errors = only(self.scheduler.requests, runner_output.errors | self.scheduler.gates.take_errors())
        changed = self.processor.requests([*kept, *errors]) | self.processor.behind()
        self.processor.note_logprobs(kept, runner_output.logprobs)
        kept = self._detokenize_all(changed, kept, now)
        self._finish_failed(errors)
        drafts = self._accept_drafts(runner_output)
        ended = [request for request in changed.values() if request.is_finished]
        self._report(StepResult(scheduler_output, runner_output.sampled_token_ids, kept, ended, drafts))
        return [self.processor.output(request_id, now, errors.get(request_id)) for request_id in changed]

    def _detokenize_all(self, changed: Iterable[str], kept: dict[str, list[int]], now: float) -> dict[str, list[int]]:
        """Turn new tokens into text; return the kept tokens, cut off after any stop string."""
        num_cut = {request_id: self._detokenize(request_id, now) for request_id in changed}
        return {request_id: tokens[: len(tokens) - num_cut[request_id]] for request_id, tokens in kept.items()}

    def _finish_failed(self, errors: Iterable[str]) -> None:
        for request_id in errors:
            # Their K and V do not count as computed, because they may be as unusable as the logits.
            self.scheduler.finish_request(request_id, RequestStatus.FINISHED_ERROR, num_computed_tokens=0)

    def _accept_drafts(self, runner_output: ModelRunnerOutput) -> dict[str, list[int]]:
        """Give unfinished requests their drafts for the next step; return these drafts."""
        drafts = only(self.scheduler.requests, runner_output.draft_token_ids)
        self.scheduler.update_draft_token_ids(drafts)
        return drafts

    def _report(self, result: StepResult) -> None:
        for observer in self.observers:
            observer.after_update(result)
        self.scheduler.settle_update()
        self._in_step = []

    def _detokenize(self, request_id: str, now: float) -> int:
        """Turn new tokens into text; a stop string ends the request. Returns the number of tokens after the stop
        string."""
        stop, num_cut = self.processor.take_new_tokens(request_id, now)
        if stop is not None and not self.scheduler.finish_request(request_id, RequestStatus.FINISHED_STOPPED, stop):
            # The request has already ended at its maximum length, but the stop string takes precedence.
            self.processor.states[request_id].request.finish(RequestStatus.FINISHED_STOPPED, stop)
        return num_cut

    @contextmanager
    def _undoing(self, undo: Callable[[], None]) -> Iterator[None]:
        try:
            yield
            # Must come last, because an interrupt after it would lose the outputs that it marks as delivered.
            self.processor.note_delivered()
        except BaseException as error:
            if isinstance(error, InvariantError):
                self.scheduler.take_back_update()
                self._in_step = error.request_ids or self._in_step
            if not isinstance(error, StalledError):
                undo()
                self.processor.fall_behind()
            for observer in self.observers:
                observer.step_undone()
            raise

    def _discard(self, request_id: str) -> None:
        """Forget a request that was only half added."""
        self.processor.states.pop(request_id, None)
        self.scheduler.requests.pop(request_id, None)
        self._start_over()

    def _start_over(self) -> None:
        self.scheduler.restart()
