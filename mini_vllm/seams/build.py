"""The bill of materials: which parts an engine is made of. The only place that knows all six phases."""

from collections.abc import Callable

from mini_vllm.config import EngineConfig
from mini_vllm.core.scheduler import Scheduler, SchedulerParts
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import InvariantChecker, StepObserver
from mini_vllm.engine.tokenizer import ByteTokenizer, Tokenizer
from mini_vllm.engine.trace_recorder import TraceRecorder
from mini_vllm.runner.fake_model_runner import LETTERS, FakeModelRunner
from mini_vllm.seams.interfaces import ModelRunner
from mini_vllm.seams.lineup import Lineup
from mini_vllm.seams.observed_prefix_cache import ObservedPrefixCache
from mini_vllm.seams.parts import (
    chunk_policy_for,
    kv_cache_manager_for,
    preemption_for,
    prefix_cache_for,
    request_queue_for,
    scheduling_functions_for,
)


def build_scheduler(config: EngineConfig, lineup: Lineup, on_evict: Callable[[int], object] | None = None) -> Scheduler:
    """Assemble phases 1 to 5.

    `config` must set `max_model_len` and `num_gpu_blocks` (see `EngineConfig.resolved`). `on_evict` is called
    with the id of every block that the prefix cache evicts. Raises `ValueError` if config and lineup do not
    go together.
    """
    if config.max_model_len is None or config.num_gpu_blocks is None:
        raise ValueError("max_model_len and num_gpu_blocks must be set before a scheduler is built")
    functions = scheduling_functions_for(lineup.scheduler)

    def make_parts() -> SchedulerParts:
        prefix_cache = prefix_cache_for(lineup.prefix_cache, config)
        if on_evict is not None:
            prefix_cache = ObservedPrefixCache(prefix_cache, on_evict)
        return SchedulerParts(
            kv=kv_cache_manager_for(lineup.kv_cache, config, prefix_cache),
            prefix_cache=prefix_cache,
            preemption=preemption_for(lineup.preemption, config),
            chunks=chunk_policy_for(lineup.chunking, config, functions.clamp),
            waiting=request_queue_for(lineup.preemption, config),
        )

    return Scheduler(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=config.max_model_len,
        functions=functions,
        make_parts=make_parts,
    )


def build_engine(
    config: EngineConfig, lineup: Lineup, model: str | None = None, *, record: bool = False, dense: bool = False
) -> LLMEngine:
    """Assemble a whole engine.

    With phase 6 it runs `model` (a directory or hub name; None is the embedded model), without it the fake
    model, which needs no torch. `dense` replaces the fake model by a plain forward pass of `model` without a KV
    cache. `record` keeps a trace of every step (`engine.recorder.steps`).
    """
    runner: ModelRunner
    tokenizer: Tokenizer
    if lineup.runner == "absent" and dense:
        from mini_vllm.runner.loading import load_model

        config.require_one_rank("phase 6 (GPU runner) is absent")
        loaded, tokenizer = load_model(model, config.dtype, prepack_weights=config.prepack_weights)
        config = config.resolved(loaded.max_model_len, num_gpu_blocks=1024)
    elif lineup.runner == "absent":
        config.require_one_rank("phase 6 (GPU runner) is absent")
        config = config.resolved(max_model_len=2048, num_gpu_blocks=1024)
    else:
        from mini_vllm.runner.opening import open_model

        opened = open_model(model, config, lineup.runner)
        config = config.resolved(opened.max_model_len, opened.num_gpu_blocks)
    evicted: list[int] = []
    scheduler = build_scheduler(config, lineup, on_evict=evicted.append if record else None)
    num_blocks, block_size = scheduler.kv.num_usable_blocks + 1, scheduler.kv.block_size
    if lineup.runner == "absent" and dense:
        from mini_vllm.runner.dense_runner import DenseModelRunner

        runner = DenseModelRunner(loaded)
    elif lineup.runner == "absent":
        runner, tokenizer = FakeModelRunner(num_blocks, block_size, LETTERS), ByteTokenizer()
    else:
        from mini_vllm.runner.paged_model_runner import PagedModelRunner

        runner = PagedModelRunner(opened.with_cache(num_blocks, block_size), opened.steps)
        tokenizer = opened.tokenizer
    observers: list[StepObserver] = [TraceRecorder(scheduler, evicted)] if record else []
    if config.check_invariants:
        observers.append(InvariantChecker(scheduler, config.policy))
    return LLMEngine(config, scheduler, runner, tokenizer, observers)
