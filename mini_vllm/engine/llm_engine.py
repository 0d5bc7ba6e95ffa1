"""The engine: requests in, steps, outputs out. (vLLM: `v1/engine/core.py` and `llm_engine.py`.)

One step is: plan, run, apply. Everything clever happens in the parts.
"""

import random
import time
from collections.abc import Callable

from mini_vllm.config import EngineConfig
from mini_vllm.core.invariants import check_drained, check_state, check_step
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest, SchedulerOutput
from mini_vllm.engine.admission import require_servable
from mini_vllm.engine.output_processor import OutputProcessor
from mini_vllm.engine.tokenizer import Tokenizer
from mini_vllm.engine.trace_recorder import TraceRecorder
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams
from mini_vllm.seams.interfaces import ModelRunner


class StalledError(RuntimeError):
    """Nothing can be scheduled any more, and nothing will change that: memory is held by those who wait for it."""


class RunnerError(RuntimeError):
    """A runner gave back something that is no answer to its batch."""


class LLMEngine:
    """One engine over one scheduler and one runner. `assembly.py` builds it."""

    def __init__(
        self,
        config: EngineConfig,
        scheduler: Scheduler,
        runner: ModelRunner,
        tokenizer: Tokenizer,
        recorder: TraceRecorder | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.scheduler = scheduler
        self.runner = runner
        self.tokenizer = tokenizer
        self.recorder = recorder
        self.clock = clock
        self.processor = OutputProcessor(tokenizer)
        self._known_ids: set[str] = set()

    def add_request(
        self,
        request_id: str,
        prompt: str | list[int],
        params: SamplingParams | None = None,
        *,
        priority: int = 0,
        cache_salt: str | None = None,
        adapter_id: str | None = None,
    ) -> None:
        """Queue a prompt (text or token ids).

        Raises `ValueError` if the request could never be served; the engine has then not changed.
        """
        params = params or SamplingParams()
        params.validate()
        if request_id in self._known_ids:
            raise ValueError(f"request_id {request_id!r} has been used already; every request needs its own")
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
            seed=random.getrandbits(63) if params.seed is None else params.seed,
        )
        require_servable(request, self.scheduler.max_model_len, self.runner.vocab_size, self.scheduler.kv)
        self._known_ids.add(request_id)
        self.processor.add_request(request, prompt if isinstance(prompt, str) else None, now)
        self.scheduler.add_request(request)
        if self.recorder is not None:
            self.recorder.added(request_id)

    def abort_request(self, request_id: str) -> RequestOutput | None:
        """End a request early; return what it has said. None if it is over already.

        Raises `ValueError` for an id that was never added.
        """
        if request_id not in self._known_ids:
            raise ValueError(f"there has never been a request {request_id!r}")
        if not self.scheduler.finish_request(request_id, RequestStatus.FINISHED_ABORTED):
            return None
        if self.recorder is not None:
            self.recorder.aborted(request_id)
        return self.processor.output(request_id, self.clock())

    def has_unfinished_requests(self) -> bool:
        return self.scheduler.has_unfinished_requests()

    def step(self) -> list[RequestOutput]:
        """Plan one batch, run it, apply its tokens; return the output of every request that got some.

        If the runner raises, the step is undone (its requests wait again, no block is lost) and the
        exception goes on; `step()` may be called again. Raises `StalledError` if nothing can ever move.
        """
        if self.recorder is not None:
            self.recorder.before_schedule()
        scheduler_output = self.scheduler.schedule()
        if self.config.check_invariants:
            check_step(self.scheduler, scheduler_output)
        if self.recorder is not None:
            self.recorder.after_schedule(scheduler_output)
        self._require_progress(scheduler_output)
        result = self._run(scheduler_output)
        kept = self.scheduler.update_from_output(scheduler_output, result.sampled_token_ids)
        outputs = self._process(kept, result)
        if self.config.check_invariants:
            check_state(self.scheduler, self.config.policy)
            if not self.has_unfinished_requests():
                check_drained(self.scheduler)
        return outputs

    def _require_progress(self, scheduler_output: SchedulerOutput) -> None:
        if scheduler_output.num_scheduled_tokens or scheduler_output.preempted or not self.has_unfinished_requests():
            return
        if self.recorder is not None:
            self.recorder.undone()
        kv = self.scheduler.kv
        raise StalledError(
            f"nothing was scheduled, although {len(self.scheduler.running)} requests run and "
            f"{len(self.scheduler.waiting)} wait: {kv.num_free_blocks} of {kv.num_usable_blocks} blocks are free"
        )

    def _run(self, scheduler_output: SchedulerOutput) -> ModelRunnerOutput:
        batch: list[ScheduledRequest] = []
        self.processor.note_scheduled(list(scheduler_output.num_scheduled_tokens), self.clock())
        try:
            batch = self._batch(scheduler_output)
            result = self.runner.execute_model(batch) if batch else ModelRunnerOutput({})
            self._require_answer(batch, result)
        except BaseException:
            self._undo(scheduler_output, batch)
            raise
        return result

    def _undo(self, scheduler_output: SchedulerOutput, batch: list[ScheduledRequest]) -> None:
        self.scheduler.roll_back(scheduler_output)
        for row in batch:
            if row.request.is_finished:  # aborted during the forward pass: what it would have filled is not there
                first_missing = row.num_computed_tokens // self.scheduler.kv.block_size
                self.scheduler.prefix_cache.drop_uncomputed(row.block_ids[first_missing:])
        if self.recorder is not None:
            self.recorder.undone()

    def _batch(self, scheduler_output: SchedulerOutput) -> list[ScheduledRequest]:
        should_sample, kv = self.scheduler.chunks.should_sample, self.scheduler.kv
        batch = []
        for request_id, num_tokens in scheduler_output.num_scheduled_tokens.items():
            request = self.scheduler.requests[request_id]
            computed = request.num_computed_tokens
            samples = should_sample(request, computed)
            batch.append(
                ScheduledRequest(request, computed - num_tokens, num_tokens, kv.block_ids(request_id), samples)
            )
        return batch

    def _require_answer(self, batch: list[ScheduledRequest], result: ModelRunnerOutput) -> None:
        expected = {row.request.request_id for row in batch if row.needs_token}
        answered = result.sampled_token_ids.keys() | result.errors.keys()
        if both := result.sampled_token_ids.keys() & result.errors.keys():
            raise RunnerError(f"the runner gave a token and an error for {sorted(both)}")
        if answered != expected:
            raise RunnerError(f"the runner answered for {sorted(answered)}, asked were {sorted(expected)}")
        for request_id, token_ids in result.sampled_token_ids.items():
            if len(token_ids) != 1 or not 0 <= token_ids[0] < self.runner.vocab_size:
                raise RunnerError(f"the runner gave {request_id} the tokens {token_ids}, expected one token id")

    def _process(self, kept: dict[str, list[int]], result: ModelRunnerOutput) -> list[RequestOutput]:
        now, processor = self.clock(), self.processor
        errors = {i: error for i, error in result.errors.items() if i in self.scheduler.requests}
        requests = {request_id: processor.states[request_id].request for request_id in [*kept, *errors]}
        for request_id, token_ids in kept.items():
            stop = processor.take_tokens(request_id, token_ids, now)
            if stop is not None:
                requests[request_id].stop_reason = stop
                if not self.scheduler.finish_request(request_id, RequestStatus.FINISHED_STOPPED):
                    requests[request_id].status = RequestStatus.FINISHED_STOPPED
        for request_id in errors:
            requests[request_id].num_computed_tokens = 0  # its K and V may be as unusable as its logits
            self.scheduler.finish_request(request_id, RequestStatus.FINISHED_ERROR)
        if self.recorder is not None:
            ended = [request for request in requests.values() if request.is_finished]
            self.recorder.after_update(result.sampled_token_ids, kept, ended)
        return [processor.output(request_id, now, errors.get(request_id)) for request_id in requests]
