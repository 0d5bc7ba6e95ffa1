"""Builds the engine in which a phase is tested: the real framework, your phase, and neighbours unlike the reference."""

import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from mini_vllm.core.absent import NoGates
from mini_vllm.core.interfaces import ModelRunner, SchedulingFunctions
from mini_vllm.core.invariants import InvariantError, check_state
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.scheduler_parts import SchedulerParts
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest, SchedulerOutput
from mini_vllm.core.tokenizer import ByteTokenizer
from mini_vllm.electives.async_scheduling import AsyncFunctions
from mini_vllm.electives.prefix_caches import ObservedPrefixCache
from mini_vllm.electives.speculation import SpeculationFunctions
from mini_vllm.electives.tokens_ahead import TokensAhead
from mini_vllm.engine.engine_parts import EngineParts
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.overlapping_engine import OverlappingEngine
from mini_vllm.engine.runner_thread import RunnerThread
from mini_vllm.engine.trace_recorder import TraceRecorder
from mini_vllm.runner.drafts.drafting_runner import DraftingRunner
from mini_vllm.runner.drafts.proposer import PromptLookup, Proposer
from mini_vllm.runner.fake_model_runner import LETTERS, FakeModelRunner
from mini_vllm_labs.grading.labtest.in_place import drafting
from mini_vllm_labs.grading.labtest.in_place.neighbours import AnyCache, AnyMemory, AnyShare, AnyStep, AnyVictim
from mini_vllm_labs.grading.labtest.in_place.scenario import EngineInput
from mini_vllm_labs.grading.labtest.in_place.tape import Tape
from mini_vllm_labs.grading.labtest.public_clamp import make_clamp

Record = dict[str, Any]
RECORDED = "step scheduled total preempted evicted free_after_schedule update_of output finished".split()
STATE = "running_after waiting_after detail".split()


class ForwardPassError(Exception):
    """A deliberate failure of a forward pass."""


class Place:
    """Runs a scenario step by step on an engine that uses `yours` as its phase. With an empty tape, the run is
    recorded."""

    def __init__(self, phase: int, yours: ModuleType, scenario: EngineInput, tape: Tape) -> None:
        self.phase, self.yours, self.scenario, self.tape = phase, yours, scenario, tape
        self.number = 0
        self._arriving, self._num_batches, config = list(scenario.arrivals), 0, scenario.config
        self.max_model_len, num_gpu_blocks = config.sizes
        if phase == 6:
            from mini_vllm_labs.grading.labtest.in_place.pocket_model import num_blocks

            num_gpu_blocks = num_blocks(yours, num_gpu_blocks, config.block_size)
        self.config = config.resolved(self.max_model_len, num_gpu_blocks)
        self.evicted: list[int] = []
        drafts = config.speculative_config
        self.speculation = self._speculation() if drafts else None
        self.placeholders = self._placeholders() if config.async_scheduling else None
        self.functions = self._functions()
        self.scheduler = Scheduler(
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            max_model_len=self.max_model_len,
            make_parts=self._parts,
            num_spare_tokens=4 + (2 * drafts.num_speculative_tokens if drafts else 0),
        )
        self.engine = self._engine()
        self._check_before_each_start()

    @property
    def finished(self) -> bool:
        return not self._arriving and not self.engine.has_unfinished_requests()

    def step(self) -> Record:
        """Add and abort requests, run a step, and return its record."""
        states = self.engine.processor.states
        due = [new for new in self._arriving if new.step <= self.number]
        for new in due:
            if new.request_id not in states:
                self._arriving.remove(new)
                # Pairs of requests arrive at the same time, in reverse order, long after the machine started.
                now = 1e5 + self.scenario.gap * (len(self._arriving) // 2)
                self.engine.clock = lambda now=now: now  # type: ignore[misc]
                self.engine.add_request(new.request_id, list(new.prompt), new.params, **new.named)
        if name := self.scenario.aborts.get(self.number):
            self.engine.abort_request(name)
        try:
            self.engine.step()
        except ForwardPassError:
            self.engine.step()
        self.number += 1
        return self._record()

    def what_is_broken(self) -> str:
        """Describe the first violated invariant between two steps, or return an empty string."""
        try:
            # neighbours serve requests in any order, so their queues need not be ordered
            check_state(self.scheduler, "priority")
        except InvariantError as error:
            return str(error)
        return self.tape.unknown

    def _check_before_each_start(self) -> None:
        """Check the tape in the planning thread, because the runner thread may be a step ahead or behind."""
        start_step = self.scheduler.start_step

        def start_if_known(scheduler_output: SchedulerOutput) -> list[ScheduledRequest]:
            self.tape.require_known()
            return start_step(scheduler_output)

        self.scheduler.start_step = start_if_known  # type: ignore[method-assign]

    def _record(self) -> Record:
        scheduler, record = self.scheduler, self.engine.recorder.steps[-1]
        record["detail"] |= {
            "hit rate": round(float(scheduler.prefix_cache.hit_rate()), 6),
            "usage": round(float(getattr(scheduler.kv, "usage", 0.0)), 6),
            "requests": {
                one.request_id: [one.status.name, one.num_cached_tokens, one.num_preemptions]
                + ([len(one.block_hashes)] if self.phase != 4 else [])
                for one in scheduler.requests.values()
            },
        }
        kept = {name: value for name, value in record.items() if name in (*RECORDED, *STATE)}
        found: Record = json.loads(json.dumps(kept, default=lambda numbers: numbers.tolist()))
        return found

    def _functions(self) -> SchedulingFunctions:
        if self.phase == 1:
            return SchedulingFunctions(self.yours.clamp, self.yours.schedule_step, self.yours.update_from_output)
        step = AnyStep()
        return SchedulingFunctions(make_clamp(), step.schedule_step, step.update_from_output)

    def _parts(self) -> SchedulerParts:
        phase, yours, config, functions = self.phase, self.yours, self.config, self.functions
        size, num_gpu_blocks = config.block_size, config.sizes[1]
        inner = yours.HashPrefixCache(size) if phase == 4 else AnyCache(size)
        cache = ObservedPrefixCache(inner, self.evicted.append)
        kv = (yours.PagedKVCacheManager if phase == 2 else AnyMemory)(num_gpu_blocks, size, cache)
        chunks: Any = AnyShare(functions.clamp, config.max_num_batched_tokens)
        if phase == 5:
            limits = config.long_prefill_token_threshold, self.max_model_len
            switches = config.enable_chunked_prefill, config.admission_guard
            chunks = yours.ChunkedPrefillPolicy(functions.clamp, *limits, *switches)
        tokens_ahead = None
        if self.speculation or self.placeholders:
            if phase != 5:
                chunks.should_sample = self.tape.should_sample(config, functions.clamp)
            tokens_ahead = self._tokens_ahead(chunks=chunks, kv=kv, prefix_cache=cache)
        is_queue = phase == 3 and config.policy == "priority"
        return SchedulerParts(
            functions=functions,
            kv=tokens_ahead.kv if tokens_ahead else kv,
            prefix_cache=cache,
            preemption=yours.RecomputePreemption(config.policy) if phase == 3 else AnyVictim(),
            chunks=tokens_ahead.chunks if tokens_ahead else chunks,
            waiting=yours.PriorityRequestQueue() if is_queue else FCFSRequestQueue(),
            gates=NoGates(),
            ahead=tokens_ahead,
        )

    def _tokens_ahead(self, **parts: Any) -> TokensAhead:
        drafts = self.config.speculative_config
        num_drafts, has_cache = (drafts.num_speculative_tokens, drafts.drafter_has_kv_cache) if drafts else (0, False)
        speculation = self.speculation.make_scheduling(num_drafts, has_cache) if self.speculation else None
        placeholders = self.placeholders.make_scheduling(num_drafts) if self.placeholders else None
        return TokensAhead(speculation, placeholders, self.max_model_len, **parts)

    def _engine(self) -> LLMEngine:
        recorder = TraceRecorder(self.scheduler, self.evicted)
        parts = EngineParts(self.config, self.scheduler, self._runner(), ByteTokenizer(), [recorder])
        if self.placeholders is None:
            return LLMEngine(parts)
        return OverlappingEngine(parts, RunnerThread(self.placeholders.correct_share))

    def _speculation(self) -> SpeculationFunctions:
        if self.phase != 7:
            return self.tape.speculation(self.config)
        names = "SpeculativeScheduling propose_by_lookup select_logits_rows accept_drafts rejection_sample"
        return SpeculationFunctions(*(getattr(self.yours, name) for name in names.split()))

    def _placeholders(self) -> AsyncFunctions:
        if self.phase != 8:
            return self.tape.placeholders(self.config)
        return AsyncFunctions(self.yours.PlaceholderScheduling, self.yours.correct_share)

    def _runner(self) -> ModelRunner:
        size, num_gpu_blocks = self.config.block_size, self.config.sizes[1]
        runner: ModelRunner = FakeModelRunner(num_gpu_blocks, size, (0, *LETTERS))
        if self.phase == 6:
            from mini_vllm_labs.grading.labtest.in_place.pocket_model import PocketRunner

            runner = PocketRunner(self.yours, num_gpu_blocks, size)
        if self.speculation is not None and (drafts := self.config.speculative_config) is not None:
            runner = FakeModelRunner(num_gpu_blocks, size, drafting.LETTERS, self.speculation.accept_drafts)
            proposer: Proposer = drafting.Guesses(draws=self.phase == 7 and drafts.draws_drafts)
            if self.phase == 7:
                runner = drafting.RowsRunner(num_gpu_blocks, size, self.speculation)
                looks_up = PromptLookup(drafts, self.speculation.propose_by_lookup)
                proposer = looks_up if drafts.method == "ngram" else proposer
            runner = DraftingRunner(runner, proposer, drafts, self.max_model_len)
        compute = runner.execute_model

        def compute_or_fail(batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
            self._num_batches += 1
            if self._num_batches == self.scenario.failing_batch:
                raise ForwardPassError
            return compute(batch)

        runner.execute_model = compute_or_fail  # type: ignore[method-assign]
        return runner


def recorded_run(
    phase: int, yours: ModuleType, scenario: EngineInput, most: int
) -> tuple[list[Record], dict[str, Any]]:
    """Run a scenario with the reference as `yours`; return the step records and the recorded tape."""
    tape = Tape()
    return trace_of(Place(phase, yours, scenario, tape), most), tape.answers


def trace_of(place: Place, most: int) -> list[Record]:
    records = list[Record]()
    while not place.finished and len(records) < most:
        records.append(place.step())
    return records
