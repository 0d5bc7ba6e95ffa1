"""An engine in the judge's own process, with some parts replaced by a learner's in a worker.

Queues, requests, the fake model, the recorder and every part that is not the learner's are in this process. So the
trace is what the judge observed, not what a worker reports.
"""

from collections.abc import Callable, Collection
from itertools import count
from typing import Any

from classroom.judge.chunk_policies import MixedChunkPolicy, ReluctantChunkPolicy
from classroom.judge.scenario import Scenario
from classroom.worker.encoding import Exported
from classroom.worker.link import Link
from mini_vllm.assembly.parts import (
    chunk_policy_for,
    kv_cache_manager_for,
    preemption_for,
    prefix_cache_for,
    request_queue_for,
    scheduling_functions_for,
)
from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, ModelRunner, Preemption, PrefixCache, RequestQueue
from mini_vllm.core.interfaces import SchedulingFunctions as SchedulerStepParts
from mini_vllm.core.observed_prefix_cache import ObservedPrefixCache
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler, SchedulerParts
from mini_vllm.core.step_record import StepRecord
from mini_vllm.core.tokenizer import ByteTokenizer
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.trace_recorder import TraceRecorder
from mini_vllm.runner.fake_model_runner import LETTERS, FakeModelRunner
from mini_vllm.sampling_params import SamplingParams

Mine = Collection[str]
EVERYTHING = (
    *("clamp", "schedule_step", "update_from_output", "kv", "preemption", "queue", "prefix cache"),
    *("num_new_tokens", "admits", "should_sample"),
)


class Parts:
    """Makes the parts of an engine: the learner's (`mine`) in the worker behind `link`, the others here."""

    def __init__(self, scenario: Scenario, link: Link | None, mine: Mine) -> None:
        self.config = scenario.config
        self.link = link
        self.mine = set(mine) if link is not None else set[str]()
        self.reluctant = scenario.reluctant

    def scheduler(self, on_evict: Callable[[int], object]) -> Scheduler:
        """Put phases 1 to 5 together."""
        config = self.config
        assert config.max_model_len is not None
        phase1 = self.phase1()

        def make_parts() -> SchedulerParts:
            cache = ObservedPrefixCache(self.prefix_cache(), on_evict)
            return SchedulerParts(self.kv(cache), cache, self.preemption(), self.chunks(phase1), self.queue())

        scheduler = Scheduler(
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            max_model_len=config.max_model_len,
            functions=phase1,
            make_parts=make_parts,
        )
        if self.link is not None:
            self.link.values.share(scheduler.running)
            self.link.values.share(scheduler.requests)
        return scheduler

    def phase1(self) -> SchedulerStepParts:
        ours = scheduling_functions_for("solution")
        names = ("clamp", "schedule_step", "update_from_output")
        if not self.mine & set(names):
            return ours
        theirs = self._make("scheduler step")
        return SchedulerStepParts(*[getattr(theirs if name in self.mine else ours, name) for name in names])

    def prefix_cache(self) -> PrefixCache:
        if "prefix cache" in self.mine and self.config.enable_prefix_caching:
            return self._make("prefix cache", self.config.block_size)  # type: ignore[no-any-return]
        return prefix_cache_for("solution", self.config)

    def kv(self, cache: PrefixCache) -> KVCacheManager:
        if "kv" in self.mine:
            numbers = (self.config.num_gpu_blocks, self.config.block_size)
            return self._make("kv", *numbers, Exported(cache, "prefix cache"))  # type: ignore[no-any-return]
        return kv_cache_manager_for("solution", self.config, cache)

    def preemption(self) -> Preemption:
        if "preemption" in self.mine:
            return self._make("preemption", self.config.policy)  # type: ignore[no-any-return]
        return preemption_for("solution", self.config)

    def queue(self) -> RequestQueue:
        if "queue" in self.mine and self.config.policy == "priority":
            return self._make("queue")  # type: ignore[no-any-return]
        return request_queue_for("solution", self.config)

    def chunks(self, phase1: SchedulerStepParts) -> ChunkPolicy:
        ours = chunk_policy_for("solution", self.config, phase1.clamp)
        names = ("num_new_tokens", "admits", "should_sample")
        if self.reluctant:
            return ReluctantChunkPolicy(ours, ours, ours)
        if not self.mine & set(names):
            return ours
        config = self.config
        theirs = self._make(
            "chunks",
            Exported(phase1.clamp, "clamp"),
            config.long_prefill_token_threshold,
            config.max_model_len,
            config.enable_chunked_prefill,
            config.admission_guard,
        )
        return MixedChunkPolicy(*[theirs if name in self.mine else ours for name in names])

    def _make(self, kind: str, *arguments: Any) -> Any:
        assert self.link is not None
        return self.link.file.call("make", kind, *arguments)


class ScenarioRun:
    """A scenario on an engine, step by step. `runner` replaces the fake model."""

    def __init__(
        self, scenario: Scenario, link: Link | None = None, mine: Mine = (), runner: ModelRunner | None = None
    ) -> None:
        config = scenario.config
        assert config.num_gpu_blocks is not None
        evicted: list[int] = []
        scheduler = Parts(scenario, link, mine).scheduler(evicted.append)
        ticks = count()
        self.recorder = TraceRecorder(scheduler, evicted)
        self.engine = LLMEngine(
            config,
            scheduler,
            runner or FakeModelRunner(config.num_gpu_blocks, config.block_size, LETTERS),
            ByteTokenizer(),
            [self.recorder],
            clock=lambda: float(next(ticks)),
        )
        self._scenario = scenario
        self._arriving = list(scenario.arrivals)
        self._number = 0

    @property
    def finished(self) -> bool:
        """Whether every request has arrived and finished."""
        return not self._arriving and not self.engine.has_unfinished_requests()

    def step(self) -> StepRecord:
        """Add this step's arrivals, apply its aborts, run one step, and return its record."""
        while self._arriving and self._arriving[0].arrival_time <= self._number:
            new = self._arriving.pop(0)
            params = SamplingParams(
                max_tokens=new.max_tokens, ignore_eos=True, stop_token_ids=new.stop_token_ids, seed=self._number
            )
            self.engine.add_request(
                new.request_id,
                list(new.prompt_token_ids),
                params,
                priority=new.priority,
                cache_salt=new.cache_salt,
                adapter_id=new.adapter_id,
            )
        for step, request_id in self._scenario.aborts:
            if step == self._number:
                self.engine.abort_request(request_id)
        scheduler = self.engine.scheduler
        if isinstance(scheduler.chunks, ReluctantChunkPolicy):
            scheduler.chunks.step = self._number
        rate_before = scheduler.prefix_cache.hit_rate()
        self.engine.step()
        self._number += 1
        record = self.recorder.steps[-1]
        record["detail"]["hit rate"] = [round(rate, 6) for rate in (rate_before, scheduler.prefix_cache.hit_rate())]
        record["detail"]["usage"] = round(getattr(scheduler.kv, "usage"), 6)  # noqa: B009  (no part of the seam)
        record["detail"]["preemptions"] = {request.request_id: request.num_preemptions for request in self._alive()}
        record["detail"]["cached tokens"] = {request.request_id: request.num_cached_tokens for request in self._alive()}
        return record

    def _alive(self) -> list[Request]:
        return list(self.engine.scheduler.requests.values())
