"""A scheduler class for vLLM 0.13.0 and 0.32.0: the lineup makes every decision, expressed in vLLM's own message
types."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from vllm.logger import init_logger
from vllm.v1.core.sched import interface
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.engine import EngineCoreEventType, EngineCoreOutput, EngineCoreOutputs, FinishReason
from vllm.v1.metrics.stats import PrefixCacheStats, SchedulerStats
from vllm.v1.request import Request, RequestStatus
from vllm.v1.spec_decode.metrics import SpecDecodingStats

from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import lineup_from_env
from mini_vllm.core import step as own
from mini_vllm.core.invariants import check_state, check_step
from mini_vllm.core.request import RequestStatus as OwnStatus
from mini_vllm.engine.errors import StalledError
from mini_vllm.environment import LAB_CHECKS
from mini_vllm_labs.inside_vllm.messages import WorkerState
from mini_vllm_labs.inside_vllm.translation import engine_config, reason_to_refuse, twin_of
from mini_vllm_labs.runs.sandbox.frames import learners_frames, place_of
from mini_vllm_labs.runs.starter_status import describe

Answers = list[tuple[int, EngineCoreOutput]]  # each output with its client's number
logger = init_logger("vllm.mini_vllm_labs")  # a child of vLLM's logger, so that the same settings apply


class LearnerScheduler(interface.SchedulerInterface):
    """The scheduler of `LAB_IMPL` inside vLLM: phases 1 to 5 (7 for drafts, 8 for asynchronous scheduling).

    The lineup decides which requests run, wait or are preempted, which tokens and blocks they get in a step, which
    prefix cache hits they use, and when they end. Incoming requests, messages to workers and outputs are vLLM's
    objects. Each vLLM request has a counterpart in our engine.

    After every step, our engine's invariants are checked unless `LAB_CHECKS=0`. A request that the lineup cannot serve
    (images, grammars, adapters, embeddings) ends with an error message; the other requests are not affected. Raises
    `ValueError` for an unsupported setting. (vLLM: `v1/core/sched/interface.py`.)
    """

    def __init__(
        self, *, vllm_config: Any, kv_cache_config: Any, block_size: int, log_stats: bool = False, **_: Any
    ) -> None:
        lineup = replace(lineup_from_env(), runner="absent")
        config = engine_config(vllm_config, kv_cache_config, block_size, lineup)
        if lineup.kv_cache == "absent":
            raise ValueError(
                f"LAB_IMPL={lineup}: phase 2 must not be absent, because vLLM divides its memory into blocks"
            )
        logger.info("Scheduler: %s", describe(lineup))
        self.lineup, self.policy, self.log_stats = lineup, config.policy, log_stats
        self.evicted: list[int] = []  # evictions planned in the newest step
        self.scheduler = build_scheduler(config, lineup, self.evicted.append)
        self.requests: dict[str, Request] = {}
        self.finished_req_ids: set[str] = set()
        self.vllm_config = vllm_config
        self.connector = self.ec_connector = None  # vLLM's engine reads these attributes
        if hasattr(interface, "PauseState"):
            self._pause_state = interface.PauseState.UNPAUSED
        self._in_flight: deque[own.SchedulerOutput] = deque()
        self._workers = WorkerState()
        self._refused: Answers = []
        self._hits = PrefixCacheStats()
        self._checks = LAB_CHECKS.get()  # turned off for measurements

    @property
    def running(self) -> list[Request]:
        return [self.requests[request.request_id] for request in self.scheduler.running]

    @property
    def waiting(self) -> list[Request]:
        return [self.requests[request.request_id] for request in self.scheduler.waiting]

    @property
    def newest_plan(self) -> own.SchedulerOutput:
        return self._in_flight[-1]

    def add_request(self, request: Request) -> None:
        if reason := reason_to_refuse(request):
            logger.warning("Request %s: %s", request.request_id, reason)
            ended = EngineCoreOutput(request.request_id, [], finish_reason=FinishReason.ERROR, stop_reason=reason)
            self._refused.append((request.client_index, ended))
            return
        self.requests[request.request_id] = request
        with self._naming_the_line():
            self.scheduler.add_request(twin_of(request))
        if self.log_stats:
            request.record_event(EngineCoreEventType.QUEUED)

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        """Plan a step. Raises `StalledError` if no later step could ever schedule anything.

        `throttle_prefills` is for balancing data-parallel replicas, which are rejected at startup.
        """
        self.evicted.clear()
        with self._naming_the_line():
            plan = self.scheduler.schedule()
            shares = self.scheduler.start_step(plan)
            if self._checks:
                check_step(self.scheduler, plan)
            idle = not shares and not plan.preempted and not self._in_flight
            if idle and self.scheduler.has_unfinished_requests():
                raise StalledError.of(self.scheduler)
        for one in plan.preempted:
            self._mirror_preemption(one.victim_id)
        self._in_flight.append(plan)
        for share in shares:
            request = self.requests[share.request.request_id]
            was_running = request.status is RequestStatus.RUNNING
            if not was_running:
                self._mirror_admission(share, request)
            request.num_computed_tokens = share.num_computed_tokens
        message = self._workers.message(plan, shares, self.requests)
        message.finished_req_ids, self.finished_req_ids = self.finished_req_ids, set()
        if hasattr(message, "num_spec_tokens_to_schedule") and (drafts := self.vllm_config.speculative_config):
            # later releases do not draft any tokens by default
            message.num_spec_tokens_to_schedule = drafts.num_speculative_tokens
        for share in shares:
            self.requests[share.request.request_id].num_computed_tokens += share.num_scheduled_tokens
        return message

    def _mirror_admission(self, share: own.ScheduledRequest, request: Request) -> None:
        self._hits.record(share.request.num_tokens, share.num_computed_tokens, request.num_preemptions > 0)
        request.status = RequestStatus.RUNNING
        request.num_cached_tokens = share.request.num_cached_tokens
        if getattr(request, "prefill_stats", None) is not None and request.num_preemptions == 0:
            num_cached = min(share.num_computed_tokens, request.num_prompt_tokens)
            request.prefill_stats.set(request.num_prompt_tokens, num_cached, 0)
        if self.log_stats:
            request.record_event(EngineCoreEventType.SCHEDULED)

    def _mirror_preemption(self, name: str) -> None:
        request = self.requests[name]
        request.status, request.num_computed_tokens, request.spec_token_ids = RequestStatus.PREEMPTED, 0, []
        request.num_preemptions += 1
        self._workers.lose_blocks(name)
        if self.log_stats:
            request.record_event(EngineCoreEventType.PREEMPTED)

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: Any
    ) -> dict[int, EngineCoreOutputs]:
        plan, output = self._in_flight.popleft(), model_runner_output
        # A request that was aborted during the forward pass no longer exists.
        twins = {name: self.scheduler.requests[name] for name in plan.num_scheduled_tokens if name in self.requests}
        rows = output.sampled_token_ids or [[]] * len(output.req_ids)
        found = {name: rows[output.req_id_to_index[name]] for name in twins}
        sampled = {name: list(map(int, token_ids)) for name, token_ids in found.items() if token_ids}
        drafted = {name: ids for name, ids in plan.scheduled_spec_decode_tokens.items() if name in sampled}
        drafts = [(len(ids), len(sampled[name]) - 1) for name, ids in drafted.items()]
        with self._naming_the_line():
            kept = self.scheduler.update_from_output(plan, sampled)
            if self._checks:
                check_state(self.scheduler, self.policy)
        answers, self._refused = self._refused, []
        for name, twin in twins.items():
            request = self.requests[name]
            request.num_computed_tokens = twin.num_computed_tokens
            if token_ids := kept.get(name):
                answers.append((request.client_index, self._answer(request, twin, token_ids, output)))
        return self._sent(answers, drafts)

    def _answer(self, request: Request, twin: Any, token_ids: list[int], output: Any) -> EngineCoreOutput:
        """Return a request's output for the front end; if the request has finished, record that."""
        request.append_output_token_ids(list(token_ids))
        if twin.is_finished:
            self._end(request, RequestStatus[twin.status.name], twin.stop_reason)
        logprobs = None
        params = request.sampling_params
        if getattr(params, "num_logprobs", params.logprobs) is not None and output.logprobs:
            logprobs = output.logprobs.slice_request(output.req_id_to_index[request.request_id], len(token_ids))
        if hasattr(request, "take_prefill_stats"):
            cached = {"prefill_stats": request.take_prefill_stats()}
        else:
            cached = {"num_cached_tokens": request.num_cached_tokens}
        return EngineCoreOutput(
            request_id=request.request_id,
            new_token_ids=list(token_ids),
            finish_reason=request.get_finished_reason(),
            new_logprobs=logprobs,
            new_prompt_logprobs_tensors=output.prompt_logprobs_dict.get(request.request_id),
            stop_reason=request.stop_reason,
            events=request.take_events(),
            trace_headers=request.trace_headers,
            **cached,
        )

    def _sent(self, answers: Answers, drafts: list[tuple[int, int]]) -> dict[int, EngineCoreOutputs]:
        """Group the answers by client; attach the statistics, including the drafts proposed and accepted, to the first
        client's answers."""
        sent = defaultdict[int, EngineCoreOutputs](EngineCoreOutputs)
        for client, answer in answers:
            sent[client].outputs.append(answer)
        if (stats := self.make_stats()) is not None:
            if drafts:
                num_speculative = self.vllm_config.speculative_config.num_speculative_tokens
                stats.spec_decoding_stats = SpecDecodingStats.new(num_speculative)
            for num_drafts, num_accepted in drafts:
                stats.spec_decoding_stats.observe_draft(num_drafts, num_accepted)
            sent[next(iter(sent), 0)].scheduler_stats = stats
        return sent

    def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: RequestStatus) -> list[Request]:
        """End the given requests, or all of them if None, and return those that were unfinished."""
        names = self.requests if request_ids is None else request_ids
        names = [names] if isinstance(names, str) else dict.fromkeys(names)
        ended = [self.requests[name] for name in names if name in self.requests]
        for request in ended:
            with self._naming_the_line():
                self.scheduler.finish_request(request.request_id, OwnStatus.FINISHED_ABORTED)
            self._end(request, finished_status, request.stop_reason)
        return ended

    def _end(self, request: Request, status: RequestStatus, stop_reason: int | str | None) -> None:
        name = request.request_id
        request.status, request.stop_reason = status, stop_reason
        del self.requests[name]
        self._workers.forget(name)
        self.finished_req_ids.add(name)

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        found = zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids, strict=True)
        alive = {name: token_ids for name, token_ids in found if name in self.requests}
        for name, token_ids in alive.items():
            self.requests[name].spec_token_ids = list(token_ids)
        self.scheduler.update_draft_token_ids(alive)

    def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        """Forget all cached blocks; return False if requests are running, unless they may be preempted."""
        if self.scheduler.running and not reset_running_requests:
            return False
        # Drop the tokens of steps in flight; their requests will compute them again.
        self._in_flight = deque(own.SchedulerOutput(token_budget=0) for _ in self._in_flight)
        for request in self.running:
            self._mirror_preemption(request.request_id)
        self._workers.in_last_step.clear()
        with self._naming_the_line():
            self.scheduler.restart()
        self._hits.reset = True
        return True

    def make_stats(self, *_: object) -> SchedulerStats | None:
        if not self.log_stats:
            return None
        hits, self._hits, usage = self._hits, PrefixCacheStats(), self.get_kv_cache_usage()
        return SchedulerStats(*self.get_request_counts(), kv_cache_usage=usage, prefix_cache_stats=hits)

    def get_kv_cache_usage(self) -> float:
        return 1 - self.scheduler.kv.num_free_blocks / self.scheduler.kv.num_usable_blocks

    def get_grammar_bitmask(self, scheduler_output: SchedulerOutput) -> None:
        return None  # a request with a grammar is rejected

    def get_request_counts(self) -> tuple[int, int]:
        return len(self.scheduler.running), len(self.scheduler.waiting)

    def get_num_unfinished_requests(self) -> int:
        return len(self.requests) + len(self._refused)

    def has_finished_requests(self) -> bool:
        return bool(self.finished_req_ids)

    def shutdown(self) -> None:
        """Do nothing, because the scheduler owns nothing except memory."""

    # Later releases require the next four methods.

    def update_draft_token_ids_in_output(self, draft_token_ids: Any, scheduler_output: SchedulerOutput) -> None:
        raise NotImplementedError("a learner's scheduler does not support drafts with structured output")

    def reset_encoder_cache(self) -> None:
        """Do nothing, because requests with images are never accepted."""

    @property
    def pause_state(self) -> Any:
        return self._pause_state

    def set_pause_state(self, pause_state: Any) -> None:
        """Accept the running state. Raises `ValueError` for any paused state."""
        if pause_state is not self._pause_state:
            raise ValueError(f"a learner's scheduler cannot be paused, got {pause_state.name}")

    @contextmanager
    def _naming_the_line(self) -> Iterator[None]:
        """Add notes to an error that name whose code ran, and the last line from `labs/` in its traceback.

        The notes are also logged, because a server tells its client only that the engine died.
        """
        try:
            yield
        except Exception as error:
            error.add_note(f"Scheduler: {describe(self.lineup)}")
            if yours := learners_frames(error.__traceback__):
                error.add_note(f"Last line of yours: {place_of(*yours[-1])}")
            logger.error("%s: %s. %s", type(error).__name__, error, ". ".join(error.__notes__))
            raise
