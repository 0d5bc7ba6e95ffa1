"""A Hypothesis state machine: it adds and aborts requests, steps and interrupts the engine, and checks all outputs."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mini_vllm import EngineConfig, RequestOutput, SamplingParams
from mini_vllm.core.invariants import check_drained, check_state, require
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.tokenizer import ByteTokenizer
from mini_vllm.engine.overlapping_engine import OverlappingEngine
from tests.engine.bad_requests import NUM_KINDS, add_bad
from tests.engine.interrupts import interrupted_at
from tests.engine.runners import RAISES, Fault, install_faults, install_spy, pace_runner
from tests.engine.snapshots import MemoryCheck, snapshot
from tests.engine.strategies import configs
from tests.engine.workloads import PREFIXES, Expected, draft_half_right, drain, expect, make_engine

MAX_LIVE = 8
STOPS: tuple[dict[str, Any], ...] = (
    *[{}] * 5,
    {"stop_token_ids": tuple(b"aeiou")},
    {"stop_token_ids": tuple(b"aeiou"), "include_stop_str_in_output": True},
    {"stop": ("e", "qqqq")},
    {"stop": ("ab", "b"), "include_stop_str_in_output": True},
)
PARTS = (
    "schedule",
    "schedule_step",
    "make_room",
    "start_step",
    "update_from_output",
    "check_stop",
    "_forget",
    "_update",
    "check_update",
    "output",
)
INTERRUPTS = (KeyboardInterrupt, OSError, MemoryError)
PLACES = ("waiting", "running", "mid-prefill", "preempted", "finished", "unknown")


class EngineMachine(RuleBasedStateMachine):
    """Each request must end with the output that it has when run alone; no block or request may be lost."""

    @initialize(
        config=configs(), max_loras=st.sampled_from([None, None, 1, 2]), record=st.booleans(), late=st.booleans()
    )
    def start(self, config: EngineConfig, max_loras: int | None, record: bool, late: bool) -> None:
        self.config = config = replace(config, max_loras=max_loras)
        self.max_model_len = config.max_model_len or 0
        self.engine = make_engine(config, "solution:1-5,solution:7-8,solution:11", record=record)
        draft_half_right(self.engine)
        # How far a free-running thread has progressed when interrupted differs from run to run, so no run could be
        # replayed.
        pace_runner(self.engine, late=late)
        self.faulty = install_faults(self.engine)
        # By the time the engine learns that the logits are unusable, a different request may already be using these
        # blocks.
        self.faulty.scribbles_over_unusable_logits = not config.async_scheduling
        self.spy = install_spy(self.engine)
        self.memory = MemoryCheck(self.engine, self.faulty.inner)
        self._watch_memory()
        self.expected: dict[str, Expected] = {}
        self.shown: dict[str, str] = {}
        self.ended: list[str] = []

    @precondition(lambda self: len(self.engine.scheduler.requests) < MAX_LIVE)
    @rule(
        prefix=st.integers(0, 1),
        shared=st.sampled_from([0, 3, 4, 8, 8, 12, 16, 16]),
        own=st.integers(0, 6),
        letter=st.integers(0, 2),
        max_tokens=st.integers(1, 12),
        stop=st.sampled_from(STOPS),
        salt=st.sampled_from([None, None, None, "tenant"]),
        adapter=st.sampled_from([None, None, "a", "b", "c"]),
        skips=st.sampled_from([False, False, True]),
        priorities=st.sampled_from([(0,), (2,), (1, 0), (2, 2, 0), (2, 1, 0, 0)]),
        together=st.booleans(),
    )
    def add(
        self,
        prefix: int,
        shared: int,
        own: int,
        letter: int,
        max_tokens: int,
        stop: dict[str, Any],
        salt: str | None,
        adapter: str | None,
        skips: bool,
        priorities: tuple[int, ...],
        together: bool,
    ) -> None:
        """Add one request, or several with increasing prompt length and urgency, all in one step or one per step."""
        prompt = [*PREFIXES[prefix][:shared], *[letter] * own][: self.max_model_len - 1] or [letter]
        params = SamplingParams(max_tokens=max_tokens, skip_reading_prefix_cache=skips, **stop)
        for priority in priorities:
            request_id = f"r{len(self.expected)}"
            if self._can_never_fit(prompt, max_tokens):
                self._must_be_refused(prompt, params)
                return
            self.engine.add_request(request_id, prompt, params, priority=priority, cache_salt=salt, adapter_id=adapter)
            self.expected[request_id] = expect(prompt, params, self.max_model_len)
            self.shown[request_id] = ""
            prompt = [*prompt, letter][: self.max_model_len - 1]
            if not together:
                self._step()

    @rule(kind=st.integers(0, NUM_KINDS - 1))
    def add_something_bad(self, kind: int) -> None:
        before = snapshot(self.engine)
        add_bad(self.engine, kind, known_id=next(iter(self.engine.processor.states), None))
        require(snapshot(self.engine) == before, f"the refused request of kind {kind} changed the engine")

    @rule(place=st.sampled_from(PLACES), pick=st.integers(0, MAX_LIVE))
    def abort(self, place: str, pick: int) -> None:
        if place == "unknown":
            there = ["unknown"]
        elif place == "finished":
            there = self.ended
        else:
            there = [r.request_id for r in self.engine.scheduler.requests.values() if self._place(r) == place]
        if not there:
            return
        request_id = there[pick % len(there)]
        output = self.engine.abort_request(request_id)
        if place in ("finished", "unknown"):
            require(output is None, f"{request_id} is not alive and was aborted all the same")
            return
        assert output is not None
        self._receive([output])
        reason = output.outputs[0].finish_reason  # "stop": the interrupted step had not yet checked for the stop string
        require(reason in ("abort", "stop"), f"{request_id} was aborted: {output}")
        require(self.engine.abort_request(request_id) is None, "a second abort is no abort")

    @rule()
    def step(self) -> None:
        self._step()

    @rule(count=st.integers(2, 12))
    def run_of_steps(self, count: int) -> None:
        for _ in range(count):
            self._step()
            self.everything_is_consistent()

    @precondition(lambda self: self.engine.has_unfinished_requests())
    @rule(fault=st.sampled_from([*sorted(RAISES), "logits", "half", "before"]), pause=st.integers(0, 3))
    def step_with_a_fault(self, fault: Fault, pause: int) -> None:
        """A failed forward pass raises when its result is applied: in a later step if one is in flight."""
        for _ in range(pause):
            self._step()
        self.faulty.fault, self.faulty.fired = fault, None
        try:
            for _ in range(1 + 2 * self.config.async_scheduling):
                self._receive(self.engine.step())
        except (Exception, KeyboardInterrupt) as error:
            if self.faulty.fired is None or not isinstance(error, RAISES[fault]):
                raise
            planned = [self.engine.scheduler.requests.get(row.request_id) for row in self.spy.batches[-1]]
            require(all(r is None or r.num_computed_tokens == 0 for r in planned), "a failed request does not wait")
        else:
            require(self.faulty.fired is None or fault == "logits", f"the fault {fault!r} was swallowed")
        self._become_idle()
        self.faulty.fault = None

    @precondition(lambda self: self.engine.scheduler.requests and not self.config.async_scheduling)
    @rule(fault=st.sampled_from([None, "before", "half", "after", "logits"]), pick=st.integers(0, MAX_LIVE))
    def abort_in_flight(self, fault: Fault | None, pick: int) -> None:
        """Abort a request during a forward pass that may fail; no uncomputed block may stay in the prefix cache."""
        requests = list(self.engine.scheduler.requests)
        request_id = requests[pick % len(requests)]

        def abort() -> None:
            self.memory.note_hashes()
            output = self.engine.abort_request(request_id)
            self._receive([output] if output else [])

        self.spy.before_batch = abort
        self.faulty.fault, self.faulty.fired = fault, None
        try:
            self._receive(self.engine.step())
        except OSError:
            require(fault not in (None, "logits"), "an error that nothing injected")
        finally:
            self._watch_memory()
            self.faulty.fault = None

    @precondition(lambda self: self.engine.has_unfinished_requests())
    @rule(
        line=st.integers(1, 120),
        since=st.sampled_from(PARTS),
        error=st.sampled_from(INTERRUPTS),
        pause=st.integers(0, 3),
    )
    def interrupt_a_step(self, line: int, since: str, error: type[BaseException], pause: int) -> None:
        """Raise an exception at any line of a step: during planning, running, updating or output. No token may be lost
        or emitted twice."""
        for _ in range(pause):
            self._step()
        outputs: list[RequestOutput] = []
        with suppress(error), interrupted_at(line, error("injected"), since):
            outputs = self.engine.step()
        self._receive(outputs)

    @precondition(lambda self: self.engine.scheduler.requests)
    @rule(line=st.integers(1, 80), error=st.sampled_from(INTERRUPTS), pick=st.integers(0, MAX_LIVE))
    def interrupt_an_abort(self, line: int, error: type[BaseException], pick: int) -> None:
        """The request is either aborted or untouched; if aborted, the next step returns its last output."""
        requests = list(self.engine.scheduler.requests)
        request_id, output = requests[pick % len(requests)], None
        with suppress(error), interrupted_at(line, error("injected")):
            output = self.engine.abort_request(request_id)
        self._receive([output] if output else [])

    @rule(line=st.integers(1, 80), error=st.sampled_from(INTERRUPTS), letter=st.integers(0, 2))
    def interrupt_an_arrival(self, line: int, error: type[BaseException], letter: int) -> None:
        """The request is either added in full or unknown to the engine."""
        request_id, prompt, params = f"r{len(self.expected)}", [letter] * 3, SamplingParams(max_tokens=2)
        if self._can_never_fit(prompt, 2):
            return
        with suppress(error), interrupted_at(line, error("injected")):
            self.engine.add_request(request_id, prompt, params)
        known = request_id in self.engine.scheduler.requests
        require(known == (request_id in self.engine.processor.states), f"{request_id} is half there")
        if known:
            self.expected[request_id], self.shown[request_id] = expect(prompt, params, self.max_model_len), ""

    @precondition(lambda self: len(self.engine.scheduler.requests) >= 3)
    @rule()
    def drain(self) -> None:
        self._drain()

    @invariant()
    def everything_is_consistent(self) -> None:
        if hasattr(self, "engine"):
            check_state(self.engine.scheduler, self.config.policy)
            self._become_idle()
            self.memory.note_hashes()
            self.memory.check()
            self._waiting_stands_in_order()

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self._drain()
            self.everything_is_consistent()

    def _watch_memory(self) -> None:
        # In a separate thread, the runner does not read the engine's requests.
        self.spy.before_batch = None if self.config.async_scheduling else self.memory.note_hashes

    def _become_idle(self) -> None:
        """Wait for the runner's thread to finish, because only then does the cache contain what the step planned."""
        if isinstance(self.engine, OverlappingEngine):
            for step in self.engine._in_flight:
                step.result.exception()

    def _step(self) -> None:
        self._receive(self.engine.step())
        limit = self.config.long_prefill_token_threshold or self.config.max_num_batched_tokens
        if self.spy.batches:
            largest = max(row.num_scheduled_tokens for row in self.spy.batches[-1])
            require(largest <= limit, f"{largest} tokens of one request in a step, the limit is {limit}")

    def _can_never_fit(self, prompt: list[int], max_tokens: int) -> bool:
        kv = self.engine.scheduler.kv
        num_tokens = min(len(prompt) + max_tokens, self.max_model_len) - 1
        return num_tokens > kv.num_usable_blocks * kv.block_size

    def _must_be_refused(self, prompt: list[int], params: SamplingParams) -> None:
        before = snapshot(self.engine)
        try:
            self.engine.add_request("too large", prompt, params)
        except ValueError as error:
            require("blocks" in str(error), f"refused for the wrong reason: {error}")
        else:
            require(False, "accepted a request that can never fit the pool")
        require(snapshot(self.engine) == before, "the refused request changed the engine")

    def _waiting_stands_in_order(self) -> None:
        waiting = list(self.engine.scheduler.waiting)
        if waiting:
            require(self.engine.scheduler.waiting.peek_request() is waiting[0], "the first in line is not looked at")
        if self.config.policy == "priority":
            urgency = [(r.priority, r.arrival_time, r.request_id) for r in waiting]
            require(urgency == sorted(urgency), f"not in order of urgency: {urgency}")

    def _drain(self) -> None:
        drain(self.engine, on_step=self._receive)
        check_drained(self.engine.scheduler)
        require(not self.engine.processor.states, "the output processor remembers finished requests")
        require(sorted(self.ended) == sorted(self.expected), "not every request has ended, or one ended twice")

    def _place(self, request: Request) -> str:
        if request.status is RequestStatus.RUNNING:
            return "mid-prefill" if request.num_computed_tokens < request.num_prompt_tokens else "running"
        return "preempted" if request.status is RequestStatus.PREEMPTED else "waiting"

    def _receive(self, outputs: list[RequestOutput]) -> None:
        for output in outputs:
            request_id, completion = output.request_id, output.outputs[0]
            expected = self.expected[request_id]
            self.shown[request_id] += output.new_text
            require(self.shown[request_id] == completion.text, f"{request_id}: the pieces do not join to the text")
            num_tokens = len(completion.token_ids)
            require(completion.token_ids == expected.token_ids[:num_tokens], f"{request_id}: {output}, {expected}")
            if output.finished:
                require(request_id not in self.ended, f"{request_id} ended twice")
                self.ended.append(request_id)
            if completion.finish_reason in ("stop", "length"):
                ours = Expected(completion.token_ids, completion.text, completion.finish_reason, completion.stop_reason)
                require(ours == expected, f"{request_id} returned {ours}, expected {expected}")
            elif completion.finish_reason in ("abort", "error"):
                text = ByteTokenizer().decode(completion.token_ids)
                require(completion.text == text, f"{request_id}: {completion.text!r} emitted of {text!r}")
