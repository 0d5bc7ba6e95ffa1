"""The engine: requests in, steps, outputs out. (vLLM: `v1/engine/core.py` and `llm_engine.py`.)"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.request import MultiModalFeatureSpec, Request, RequestStatus
from mini_vllm.core.service_level import BEST_EFFORT, ServiceLevel
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest, SchedulerOutput
from mini_vllm.electives.gates.gated import transfers_of
from mini_vllm.electives.gates.transferring_runner import run_step
from mini_vllm.engine.admission import require_acceptable
from mini_vllm.engine.control_stops import with_control_stops
from mini_vllm.engine.engine_parts import EngineParts
from mini_vllm.engine.errors import RequestIdInUseError, StalledError
from mini_vllm.engine.observers import DraftStatistics, StepObserver, StepResult
from mini_vllm.engine.output_processor import OutputProcessor
from mini_vllm.engine.runner_answer import checked_answer, only
from mini_vllm.engine.structured_output import drop_grammar, grammar_of
from mini_vllm.engine.trace_recorder import TraceRecorder
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams

SECONDS_BETWEEN_LOOKS = 0.001
MAX_STEPS_TO_SEND = 8  # two are needed with a step in flight


class LLMEngine:
    """One engine over one scheduler and one runner. `assembly/build.py` builds it."""

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

    @property
    def recorder(self) -> TraceRecorder:
        """The trace of every step. Raises `ValueError` if the engine was built without `record=True`."""
        for observer in self.observers:
            if isinstance(observer, TraceRecorder):
                return observer
        raise ValueError("this engine records no steps: build it with record=True")

    @property
    def draft_statistics(self) -> DraftStatistics | None:
        """What became of the drafts; None without them."""
        return next((one for one in self.observers if isinstance(one, DraftStatistics)), None)

    def add_observer(self, observer: StepObserver) -> None:
        """Let an observer see every step from now on."""
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
        """Queue a prompt (text or token ids), for an adapter, and with images in place of some of its tokens.

        Raises `ValueError` if the request could never be served, if `request_id` belongs to an unfinished
        request, or (`QueueFullError`) if `max_num_waiting` requests wait; the engine has then not changed.
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
        except ValueError:
            drop_grammar(request)
            raise
        with self._undoing(partial(self._discard, request_id)):
            self.scheduler.add_request(request)
            self.processor.add_request(request, prompt if isinstance(prompt, str) else None, now)
            for observer in self.observers:
                observer.request_added(request_id)

    def abort_request(self, request_id: str, error: str | None = None) -> RequestOutput | None:
        """End a request early, because of `error` if there is one; return its last output.

        None if no request with this id still has one to come.
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
            # An interrupted step may have left a stop string unseen, or the end of the request without an output.
            self._detokenize(request_id, now)
            return self.processor.output(request_id, now, error)

    def update_priority(self, request_id: str, priority: int) -> bool:
        """Change the priority of an unfinished request; return whether there is one.

        It counts from the next step on: under `policy="priority"` for its place in the queue and as a victim. Raises
        `ValueError` for a priority that is no integer.
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
        """Return the unfinished requests of the step that raised last; all requests if it had no plan yet."""
        return [name for name in self._in_step if name in self.processor.states] or list(self.processor.states)

    def has_unfinished_requests(self) -> bool:
        return self.scheduler.has_unfinished_requests() or self.processor.is_behind or self._awaits_results()

    def step(self) -> list[RequestOutput]:
        """Plan one batch, run it, apply its tokens; return the output of every request that got some.

        If anything raises (Ctrl-C too), the step counts as not taken: its requests wait again, no block is lost,
        and the exception propagates; `step()` may be called again. Raises `StalledError` if no later step could
        ever schedule anything.
        """
        with self._undoing(self.scheduler.recover):
            scheduler_output = self._plan()
            runner_output = self._run(self._start(scheduler_output))
            transfers = runner_output.kv_connector_output
            kept = self.scheduler.update_from_output(scheduler_output, runner_output.sampled_token_ids, transfers)
            return self._answer(kept, runner_output, scheduler_output)

    def _plan(self) -> SchedulerOutput:
        self._in_step = []
        for observer in self.observers:
            observer.before_schedule()
        scheduler_output = self.scheduler.schedule()
        # If nothing could be scheduled, the others wait for the blocks that the running requests hold.
        self._in_step = list(scheduler_output.num_scheduled_tokens) or [r.request_id for r in self.scheduler.running]
        for observer in self.observers:
            observer.after_schedule(scheduler_output)
        idle = not scheduler_output.num_scheduled_tokens and not scheduler_output.preempted
        is_paused = self.scheduler.release is not None and self.scheduler.release.is_paused
        if idle and self.scheduler.has_unfinished_requests() and not self._awaits_results() and not is_paused:
            gates = self.scheduler.gates
            self._require_sent(gates.requests_being_sent)
            if not gates.awaits_others and not gates.break_stall(self.scheduler.requests.values()):
                raise StalledError.of(self.scheduler)
            time.sleep(SECONDS_BETWEEN_LOOKS)  # leaves the processor to what compiles or loads
        return scheduler_output

    def _require_sent(self, names: Sequence[str]) -> None:
        """Raise `StalledError` if idle steps do not report these requests: a worker sends within its step."""
        self._idle_steps = self._idle_steps + 1 if names and names == self._held else 0
        self._held = names
        transfers = transfers_of(self.scheduler)
        if self._idle_steps > MAX_STEPS_TO_SEND and self.transfers is not None and transfers is not None:
            raise StalledError.of_held(transfers.take_held())

    def _start(self, scheduler_output: SchedulerOutput) -> list[ScheduledRequest]:
        self.processor.note_scheduled(scheduler_output.num_scheduled_tokens, self.clock())
        return self.scheduler.start_step(scheduler_output)

    def _run(self, batch: list[ScheduledRequest]) -> ModelRunnerOutput:
        runner_output = run_step(self._runner_of_step(), batch)
        return checked_answer(batch, runner_output, self.runner.vocab_size)

    def _runner_of_step(self) -> ModelRunner:
        planned = None if self.transfers is None else transfers_of(self.scheduler)
        return self.runner if self.transfers is None or planned is None else self.transfers.of_step(planned.connector)

    def _awaits_results(self) -> bool:
        """Return whether a step was started whose results are still to be applied."""
        return False

    def _answer(
        self, kept: dict[str, list[int]], runner_output: ModelRunnerOutput, scheduler_output: SchedulerOutput
    ) -> list[RequestOutput]:
        """Turn the tokens of a step into outputs, also for requests that an interrupted step left without one."""
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
        """Turn new tokens into text; return the kept ones up to a stop string."""
        num_cut = {request_id: self._detokenize(request_id, now) for request_id in changed}
        return {request_id: tokens[: len(tokens) - num_cut[request_id]] for request_id, tokens in kept.items()}

    def _finish_failed(self, errors: Iterable[str]) -> None:
        for request_id in errors:
            # None of their K and V count as computed: they may be as unusable as the logits.
            self.scheduler.finish_request(request_id, RequestStatus.FINISHED_ERROR, num_computed_tokens=0)

    def _accept_drafts(self, runner_output: ModelRunnerOutput) -> dict[str, list[int]]:
        """Give the drafts for the next step to the requests that live on; return these drafts."""
        drafts = only(self.scheduler.requests, runner_output.draft_token_ids)
        self.scheduler.update_draft_token_ids(drafts)
        return drafts

    def _report(self, result: StepResult) -> None:
        for observer in self.observers:
            observer.after_update(result)
        self._in_step = []

    def _detokenize(self, request_id: str, now: float) -> int:
        """Turn new tokens into text; return how many of them follow a stop string, which ends the request."""
        stop, num_cut = self.processor.take_new_tokens(request_id, now)
        if stop is not None and not self.scheduler.finish_request(request_id, RequestStatus.FINISHED_STOPPED, stop):
            # It has ended already, at its maximum length: the stop string comes first.
            self.processor.states[request_id].request.finish(RequestStatus.FINISHED_STOPPED, stop)
        return num_cut

    @contextmanager
    def _undoing(self, undo: Callable[[], None]) -> Iterator[None]:
        try:
            yield
            # Must come last: an interrupt after it would lose the outputs that it calls delivered.
            self.processor.note_delivered()
        except BaseException as error:
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
