"""Builds a whole engine from its parts."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.elective_parts import Electives
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.open_runner import open_runner, with_drafts
from mini_vllm.assembly.open_transfers import transfers_for
from mini_vllm.config import EngineConfig
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.engine.block_contents import ContentsChecker
from mini_vllm.engine.engine_parts import EngineParts
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import DraftStatistics, InvariantChecker, SampleChecker, StepObserver
from mini_vllm.engine.overlapping_engine import OverlappingEngine
from mini_vllm.engine.runner_thread import RunnerThread
from mini_vllm.engine.structured_output import StructuredOutputManager
from mini_vllm.engine.trace_recorder import TraceRecorder


def build_engine(
    config: EngineConfig,
    lineup: Lineup,
    model: str | None = None,
    *,
    record: bool = False,
    dense: bool = False,
    adapters: Mapping[str, str] | None = None,
    scheduling_policy: SchedulingPolicy | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> LLMEngine:
    """Assemble a whole engine.

    With phase 6 the engine runs `model` (a directory or hub name; None means the embedded model). Without phase 6 it
    runs the fake model, which needs no torch, or, with `dense`, a plain forward pass of `model` without a KV cache.
    `record` keeps a trace of every step (`engine.recorder.steps`). `adapters` maps names to directories in PEFT's
    format; one step may mix all of them unless the config sets `max_loras`. `scheduling_policy` replaces the config's
    `policy`. `clock` returns seconds; it timestamps arrivals and is also passed to the policy.
    """
    if adapters and config.max_loras is None:
        config = replace(config, max_loras=len(adapters))
    electives = Electives(lineup, config)
    opened = open_runner(electives, model, dense=dense, adapters=adapters)
    config = config.resolved(opened.max_model_len, opened.num_gpu_blocks)
    evicted: list[int] = []
    transfers = transfers_for(electives, config, opened, model)
    scheduler = build_scheduler(
        config,
        lineup,
        on_evict=evicted.append if record else None,
        make_connector=None if transfers is None else transfers.make_connector,
        windows=opened.windows,
        policy=scheduling_policy,
        clock=clock,
        electives=electives,
    )
    cache_size = scheduler.kv.num_usable_blocks + 1, scheduler.kv.block_size
    runner = paged = opened.with_cache(*cache_size)
    observers: list[StepObserver] = [TraceRecorder(scheduler, evicted)] if record else []
    observers.append(SampleChecker())
    if electives.speculation is not None and config.speculative_config is not None:
        runner = with_drafts(runner, opened, config, electives.speculation, *cache_size)
        observers.append(DraftStatistics(config.speculative_config.num_speculative_tokens))
    if config.check_invariants:
        observers.append(InvariantChecker(scheduler, config.policy if scheduling_policy is None else "priority"))
        observers.append(ContentsChecker(scheduler, results_are_late=electives.async_scheduling is not None))
    grammars = None
    if electives.structured_output is not None and lineup.runner != "absent":
        grammars = StructuredOutputManager(electives.structured_output, opened.tokenizer, runner.vocab_size)
    parts = EngineParts(
        config,
        scheduler,
        runner,
        opened.tokenizer,
        observers,
        clock,
        grammars,
        transfers=None if transfers is None else transfers.around(runner, paged),
        adapter_names=None if lineup.runner == "absent" and not dense else frozenset(adapters or ()),
        model_id=opened.model_id,
        repetition_penalty=opened.repetition_penalty,
    )
    if electives.async_scheduling is None:
        return LLMEngine(parts)
    return OverlappingEngine(parts, RunnerThread(electives.async_scheduling.correct_share))
