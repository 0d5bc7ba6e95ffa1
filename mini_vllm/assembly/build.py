"""The bill of materials: which parts an engine is made of. The only place that knows all phases."""

from collections.abc import Callable
from typing import cast

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.open_runner import open_runner, with_drafts
from mini_vllm.assembly.parts import (
    Impl,
    async_functions_for,
    chunk_policy_for,
    kv_cache_manager_for,
    preemption_for,
    prefix_cache_for,
    request_queue_for,
    scheduling_functions_for,
    speculation_functions_for,
)
from mini_vllm.config import EngineConfig
from mini_vllm.core.electives import AsyncScheduling, Speculation
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.observed_prefix_cache import ObservedPrefixCache
from mini_vllm.core.scheduler import Scheduler, SchedulerParts
from mini_vllm.core.tokens_ahead import TokensAhead
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import DraftStatistics, InvariantChecker, StepObserver
from mini_vllm.engine.overlapping_engine import OverlappingEngine
from mini_vllm.engine.runner_thread import RunnerThread
from mini_vllm.engine.trace_recorder import TraceRecorder


def build_scheduler(config: EngineConfig, lineup: Lineup, on_evict: Callable[[int], object] | None = None) -> Scheduler:
    """Assemble phases 1 to 5, and around them 7 and 8 where the config asks for them.

    `config` must be resolved. `on_evict` is called with the id of every block that the prefix cache evicts. Raises
    `ValueError` if config and lineup do not fit together.
    """
    functions, (max_model_len, _) = scheduling_functions_for(lineup.scheduler), config.sizes
    num_drafts = config.speculative_config.num_speculative_tokens if config.speculative_config else 0

    def make_parts() -> SchedulerParts:
        prefix_cache = prefix_cache_for(lineup.prefix_cache, config)
        if on_evict is not None:
            prefix_cache = cast(PrefixCache, ObservedPrefixCache(prefix_cache, on_evict))
        kv = kv_cache_manager_for(lineup.kv_cache, config, prefix_cache)
        chunks = chunk_policy_for(lineup.chunking, config, functions.clamp)
        speculation = speculation_for(lineup.speculation, config)
        async_scheduling = async_scheduling_for(lineup.async_scheduling, config)
        ahead = None
        if speculation is not None or async_scheduling is not None:
            ahead = TokensAhead(
                speculation, async_scheduling, max_model_len, chunks=chunks, kv=kv, prefix_cache=prefix_cache
            )
        return SchedulerParts(
            kv=ahead.kv if ahead else kv,
            prefix_cache=prefix_cache,
            preemption=preemption_for(lineup.preemption, config),
            chunks=ahead.chunks if ahead else chunks,
            waiting=request_queue_for(lineup.preemption, config),
            ahead=ahead,
        )

    return Scheduler(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=max_model_len,
        functions=functions,
        make_parts=make_parts,
        # A request keeps the slots of rejected drafts and of the drafter's next ones; without phase 2 it reserves all.
        num_spare_tokens=max_model_len if lineup.kv_cache == "absent" else 2 * num_drafts,
    )


def speculation_for(impl: Impl, config: EngineConfig) -> Speculation | None:
    """Return phase 7's part of the scheduler; None without drafts."""
    functions, speculative = speculation_functions_for(impl, config), config.speculative_config
    if functions is None or speculative is None:
        return None
    return functions.make_scheduling(speculative.num_speculative_tokens, speculative.drafter_has_kv_cache)


def async_scheduling_for(impl: Impl, config: EngineConfig) -> AsyncScheduling | None:
    """Return phase 8's part of the scheduler; None without asynchronous scheduling."""
    functions, speculative = async_functions_for(impl, config), config.speculative_config
    num_drafts = speculative.num_speculative_tokens if speculative else 0
    return None if functions is None else functions.make_scheduling(num_drafts)


def build_engine(
    config: EngineConfig, lineup: Lineup, model: str | None = None, *, record: bool = False, dense: bool = False
) -> LLMEngine:
    """Assemble a whole engine.

    With phase 6 it runs `model` (a directory or hub name; None is the embedded model), without it the fake model,
    which needs no torch, or with `dense` a plain forward pass of `model` without a KV cache. `record` keeps a trace of
    every step (`engine.recorder.steps`).
    """
    opened = open_runner(config, lineup, model, dense=dense)
    config = config.resolved(opened.max_model_len, opened.num_gpu_blocks)
    evicted: list[int] = []
    scheduler = build_scheduler(config, lineup, on_evict=evicted.append if record else None)
    cache_size = scheduler.kv.num_usable_blocks + 1, scheduler.kv.block_size
    runner = opened.with_cache(*cache_size)
    observers: list[StepObserver] = [TraceRecorder(scheduler, evicted)] if record else []
    speculation = speculation_functions_for(lineup.speculation, config)
    if speculation is not None and config.speculative_config is not None:
        runner = with_drafts(runner, opened, config, speculation, *cache_size)
        observers.append(DraftStatistics(config.speculative_config.num_speculative_tokens))
    if config.check_invariants:
        observers.append(InvariantChecker(scheduler, config.policy))
    parts = (config, scheduler, runner, opened.tokenizer, observers)
    async_functions = async_functions_for(lineup.async_scheduling, config)
    if async_functions is None:
        return LLMEngine(*parts)
    return OverlappingEngine(*parts, RunnerThread(async_functions.correct_share))
