"""Returns a lineup's phases 1 to 6. Only this module and `elective_parts.py` import starters and solutions.

Imports are inside the functions, so that only the phases in use are loaded and a checkout without `solutions/` works.
"""

import ast
import inspect
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from mini_vllm.config import EngineConfig
from mini_vllm.core.absent import NoPreemption, NoPrefixCache, SlotReservation, WholePrompts
from mini_vllm.core.interfaces import (
    ChunkPolicy,
    Clamp,
    HashBlock,
    KVCacheManager,
    Preemption,
    PrefixCache,
    RequestQueue,
    SchedulingFunctions,
    WholeBlockPool,
)
from mini_vllm.core.request_queue import FCFSRequestQueue

if TYPE_CHECKING:
    from mini_vllm.runner.steps import RunnerSteps

Impl = Literal["starter", "solution", "absent"]


def solutions_exist() -> bool:
    """Return whether this checkout contains the reference solutions; a student edition does not.

    An empty leftover folder (whose module has no origin) does not count, nor do the solutions of a different checkout.
    """
    spec = find_spec("solutions")
    checkout = Path(__file__).resolve().parents[2]
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve().parents[1] == checkout


def labs_exist() -> bool:
    """Return whether the course's labs can be imported; they are missing if only the engine was installed."""
    try:
        return find_spec("labs.phase1_scheduler_step") is not None
    except ModuleNotFoundError:  # `labs` does not exist, or it belongs to a different project
        return False


def scheduling_functions_for(impl: Impl) -> SchedulingFunctions:
    """Return phase 1."""
    if impl == "starter":
        from labs.phase1_scheduler_step import starter as yours

        return SchedulingFunctions(yours.clamp, yours.schedule_step, yours.update_from_output)
    from solutions import phase1_scheduler_step as ours

    return SchedulingFunctions(ours.clamp, ours.schedule_step, ours.update_from_output)


def kv_cache_manager_for(impl: Impl, config: EngineConfig, prefix_cache: PrefixCache) -> KVCacheManager:
    """Return phase 2 with the config's number of blocks, or, if it is absent, a `SlotReservation` of the same size."""
    max_model_len, num_gpu_blocks = config.sizes
    if impl == "starter":
        from labs.phase2_block_pool.starter import PagedKVCacheManager as Yours

        return Yours(num_gpu_blocks, config.block_size, prefix_cache)
    if impl == "solution":
        from solutions.phase2_block_pool import PagedKVCacheManager as Ours

        return Ours(num_gpu_blocks, config.block_size, prefix_cache)
    return SlotReservation((num_gpu_blocks - 1) * config.block_size, max_model_len)


def block_pool_for(impl: Impl, num_gpu_blocks: int, prefix_cache: PrefixCache) -> WholeBlockPool:
    """Return phase 2's block pool without its manager."""
    if impl == "starter":
        from labs.phase2_block_pool.starter import BlockPool as Yours

        return Yours(num_gpu_blocks, prefix_cache)
    from solutions.phase2_block_pool import BlockPool as Ours

    return Ours(num_gpu_blocks, prefix_cache)


def preemption_for(impl: Impl, config: EngineConfig) -> Preemption:
    """Return phase 3."""
    if impl == "starter":
        from labs.phase3_preemption.starter import RecomputePreemption as Yours

        return Yours(config.policy)
    if impl == "solution":
        from solutions.phase3_preemption import RecomputePreemption as Ours

        return Ours(config.policy)
    return NoPreemption()


def request_queue_for(impl: Impl, config: EngineConfig) -> RequestQueue:
    """Return the waiting queue: the given queue for "fcfs", phase 3's queue for "priority"."""
    if config.policy == "fcfs":
        return FCFSRequestQueue()
    if impl == "starter":
        from labs.phase3_preemption.starter import PriorityRequestQueue as Yours

        return Yours()
    if impl == "solution":
        from solutions.phase3_preemption import PriorityRequestQueue as Ours

        return Ours()
    raise ValueError("policy 'priority' needs phase 3 (preemption), which provides the priority queue")


def prefix_cache_for(impl: Impl, config: EngineConfig) -> PrefixCache:
    """Return phase 4, or a cache that never hits if the phase is absent or caching is off."""
    if impl == "absent" or not config.enable_prefix_caching:
        return NoPrefixCache()
    if impl == "starter":
        from labs.phase4_prefix_cache.starter import HashPrefixCache as Yours

        return Yours(config.block_size)
    from solutions.phase4_prefix_cache import HashPrefixCache as Ours

    return Ours(config.block_size)


def hash_block_for(impl: Impl) -> HashBlock | None:
    """Return phase 4's `hash_block` for pictures, or None if the phase is absent."""
    if impl == "absent":
        return None
    if impl == "starter":
        from labs.phase4_prefix_cache.starter import hash_block as yours

        return yours
    from solutions.phase4_prefix_cache import hash_block as ours

    return ours


def chunk_policy_for(impl: Impl, config: EngineConfig, clamp: Clamp) -> ChunkPolicy:
    """Return phase 5, built on phase 1's clamp."""
    if impl == "absent":
        config.require_whole_prompts_fit("phase 5 (chunked prefill) is absent")
        return WholePrompts(clamp)
    limits = config.long_prefill_token_threshold, config.sizes[0]
    switches = config.enable_chunked_prefill, config.admission_guard
    if impl == "starter":
        from labs.phase5_chunked_prefill.starter import ChunkedPrefillPolicy as Yours

        return Yours(clamp, *limits, *switches)
    from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy as Ours

    return Ours(clamp, *limits, *switches)


def runner_steps_for(impl: Impl) -> "RunnerSteps":
    """Return phase 6, the functions of the paged model runner. Imports torch."""
    from mini_vllm.runner.steps import RunnerSteps

    if impl == "starter":
        from labs.phase6_gpu_runner import starter as yours

        return RunnerSteps(
            yours.flatten_tokens,
            yours.compute_slot_mapping,
            yours.pad_block_tables,
            yours.select_logits_rows,
            yours.write_kv,
            yours.paged_attention,
            yours.sample,
            yours.kv_block_bytes,
            yours.num_blocks_that_fit,
        )
    from solutions import phase6_gpu_runner as ours

    return RunnerSteps(
        ours.flatten_tokens,
        ours.compute_slot_mapping,
        ours.pad_block_tables,
        ours.select_logits_rows,
        ours.write_kv,
        ours.paged_attention,
        ours.sample,
        ours.kv_block_bytes,
        ours.num_blocks_that_fit,
    )


def runner_steps_on(impl: Impl, device_type: str) -> "RunnerSteps":
    """Return phase 6 for a device, with the kernels of its optional tasks if available, otherwise in plain torch.

    The kernels are in Triton on a GPU and in C on a CPU.
    """
    steps = runner_steps_for(impl)
    if device_type == "cpu" and (source := decode_attention_for(impl)) is not None:
        from mini_vllm.runner.compiled import CFile, in_c
        from mini_vllm.runner.compiled_sampler import compiled_sample

        if impl == "starter":
            return in_c(steps, source)
        sampler = CFile.read(source.with_name("phase6_cpu_sampler.c"), is_ours=True)
        steps = in_c(steps, source, source.with_name("phase6_cpu_kernels.c"))
        return replace(steps, sample=compiled_sample(steps.sample, sampler), ignores_threads=True)
    kernels = triton_kernels_for(impl) if device_type == "cuda" else None
    if kernels is None:
        return steps
    write_kv, paged_attention = kernels.reshape_and_cache, kernels.paged_attention
    return replace(steps, write_kv=write_kv, paged_attention=paged_attention, can_be_recorded=True)


def triton_kernels_for(impl: Impl) -> ModuleType | None:
    """Return phase 6's Triton module, or None if triton is missing or the starter has not been filled in."""
    if find_spec("triton") is None:
        return None
    if impl == "starter":
        from labs.phase6_gpu_runner import starter_triton as yours

        return yours if is_written(yours) else None
    from solutions import phase6_triton_kernels as ours

    return ours


def decode_attention_of(impl: Impl) -> Path:
    """Return the C file of phase 6's optional task, even if it has not been filled in."""
    checkout = Path(__file__).resolve().parents[2]
    if impl == "starter":
        return checkout / "labs" / "phase6_gpu_runner" / "starter_decode_attention.c"
    return checkout / "solutions" / "phase6_decode_attention.c"


def decode_attention_for(impl: Impl) -> Path | None:
    """Return the file from `decode_attention_of`, or None if a compiler is missing or the starter has not been filled
    in."""
    from mini_vllm.runner.c_library import can_compile
    from mini_vllm.runner.c_starter import unwritten_task

    source = decode_attention_of(impl)
    return source if not unwritten_task(source.read_text(encoding="utf-8")) and can_compile() else None


def is_written(module: ModuleType) -> bool:
    """Return whether a module's source never raises `NotImplementedError`. Kernels cannot simply be called to find this
    out."""
    raised = [node.exc for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Raise)]
    return not any(exc is not None and ast.unparse(exc).startswith("NotImplementedError") for exc in raised)
