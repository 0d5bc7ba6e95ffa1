"""From a lineup to its parts: the one place that knows starters and solutions.

The imports stand inside the functions, so that only what is used is loaded and a checkout without
`solutions/` works.
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
from mini_vllm.core.electives import AsyncFunctions, SpeculationFunctions
from mini_vllm.core.gates.admission import AdmissionFunctions
from mini_vllm.core.gates.connector import KVTransferFunctions
from mini_vllm.core.grammar import StructuredOutputFunctions
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
from mini_vllm.core.windows.window_functions import WindowFunctions

if TYPE_CHECKING:
    from mini_vllm.runner.steps import RunnerSteps

Impl = Literal["starter", "solution", "absent"]


def solutions_exist() -> bool:
    """Return whether this checkout has the reference solutions; a student edition does not.

    An empty folder that was left over has no origin, and the solutions of a different checkout do not count.
    """
    spec = find_spec("solutions")
    checkout = Path(__file__).resolve().parents[2]
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve().parents[1] == checkout


def scheduling_functions_for(impl: Impl) -> SchedulingFunctions:
    """Return phase 1."""
    if impl == "starter":
        from labs.phase1_scheduler_step import starter as yours

        return SchedulingFunctions(yours.clamp, yours.schedule_step, yours.update_from_output)
    from solutions import phase1_scheduler_step as ours

    return SchedulingFunctions(ours.clamp, ours.schedule_step, ours.update_from_output)


def kv_cache_manager_for(impl: Impl, config: EngineConfig, prefix_cache: PrefixCache) -> KVCacheManager:
    """Return phase 2 over the blocks that `config` grants; absent, over as many single slots."""
    max_model_len, num_gpu_blocks = config.sizes
    if impl == "starter":
        from labs.phase2_block_pool.starter import PagedKVCacheManager as Yours

        return Yours(num_gpu_blocks, config.block_size, prefix_cache)
    if impl == "solution":
        from solutions.phase2_block_pool import PagedKVCacheManager as Ours

        return Ours(num_gpu_blocks, config.block_size, prefix_cache)
    return SlotReservation((num_gpu_blocks - 1) * config.block_size, max_model_len)


def block_pool_for(impl: Impl, num_gpu_blocks: int, prefix_cache: PrefixCache) -> WholeBlockPool:
    """Return the pool of phase 2 alone."""
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
    """Return the waiting queue: first come, first served is given, the priority queue is phase 3's."""
    if config.policy == "fcfs":
        return FCFSRequestQueue()
    if impl == "starter":
        from labs.phase3_preemption.starter import PriorityRequestQueue as Yours

        return Yours()
    if impl == "solution":
        from solutions.phase3_preemption import PriorityRequestQueue as Ours

        return Ours()
    raise ValueError("policy 'priority' needs phase 3 (preemption): the priority queue is part of it")


def prefix_cache_for(impl: Impl, config: EngineConfig) -> PrefixCache:
    """Return phase 4, or the cache that never hits."""
    if impl == "absent" or not config.enable_prefix_caching:
        return NoPrefixCache()
    if impl == "starter":
        from labs.phase4_prefix_cache.starter import HashPrefixCache as Yours

        return Yours(config.block_size)
    from solutions.phase4_prefix_cache import HashPrefixCache as Ours

    return Ours(config.block_size)


def hash_block_for(impl: Impl) -> HashBlock | None:
    """Return phase 4's `hash_block`, for pictures; None if the phase is absent."""
    if impl == "absent":
        return None
    if impl == "starter":
        from labs.phase4_prefix_cache.starter import hash_block as yours

        return yours
    from solutions.phase4_prefix_cache import hash_block as ours

    return ours


def chunk_policy_for(impl: Impl, config: EngineConfig, clamp: Clamp) -> ChunkPolicy:
    """Return phase 5, built on the clamp of phase 1."""
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


def speculation_functions_for(impl: Impl, config: EngineConfig) -> SpeculationFunctions | None:
    """Return phase 7; None without drafts. Raises `ValueError` if they are asked for and it is absent."""
    if config.speculative_config is None:
        return None
    if impl == "absent":
        whose = "solution" if solutions_exist() else "starter"
        raise ValueError(f"speculative_config needs phase 7 (speculative decoding), as in LAB_IMPL={whose}:1-7")
    if impl == "starter":
        from labs.phase7_speculative_decoding import starter as yours

        return SpeculationFunctions(
            yours.SpeculativeScheduling,
            yours.propose_by_lookup,
            yours.select_logits_rows,
            yours.accept_drafts,
            yours.rejection_sample,
        )
    from solutions import phase7_speculative_decoding as ours

    return SpeculationFunctions(
        ours.SpeculativeScheduling,
        ours.propose_by_lookup,
        ours.select_logits_rows,
        ours.accept_drafts,
        ours.rejection_sample,
    )


def async_functions_for(impl: Impl, config: EngineConfig) -> AsyncFunctions | None:
    """Return phase 8; None without asynchronous scheduling. Raises `ValueError` if it is asked for and absent."""
    if not config.async_scheduling:
        return None
    if impl == "absent":
        whose = "solution" if solutions_exist() else "starter"
        raise ValueError(f"async_scheduling needs phase 8 (asynchronous scheduling), as in LAB_IMPL={whose}:1-8")
    if impl == "starter":
        from labs.phase8_async_scheduling import starter as yours

        return AsyncFunctions(yours.PlaceholderScheduling, yours.correct_share)
    from solutions import phase8_async_scheduling as ours

    return AsyncFunctions(ours.PlaceholderScheduling, ours.correct_share)


def structured_output_functions_for(impl: Impl) -> StructuredOutputFunctions | None:
    """Return phase 9; None if it is absent. Then the engine refuses requests that need it."""
    if impl == "absent":
        return None
    if impl == "starter":
        from labs.phase9_structured_output import starter as yours

        return StructuredOutputFunctions(
            yours.build_dfa, yours.RegexTokenMasks, yours.RegexGrammar, yours.apply_bitmask
        )
    from solutions import phase9_structured_output as ours

    return StructuredOutputFunctions(ours.build_dfa, ours.RegexTokenMasks, ours.RegexGrammar, ours.apply_bitmask)


def kv_transfer_functions_for(impl: Impl, config: EngineConfig) -> KVTransferFunctions | None:
    """Return phase 10; None without KV transfer. Raises `ValueError` if it is asked for and absent."""
    if config.kv_transfer_config is None:
        return None
    if impl == "absent":
        whose = "solution" if solutions_exist() else "starter"
        raise ValueError(f"kv_transfer_config needs phase 10 (KV transfer), as in LAB_IMPL={whose}:1-10")
    if impl == "starter":
        from labs.phase10_kv_transfer import starter as yours

        return KVTransferFunctions(yours.HostBlockStore, yours.BlockStoreConnector, yours.BlockStoreWorker)
    from solutions import phase10_kv_transfer as ours

    return KVTransferFunctions(ours.HostBlockStore, ours.BlockStoreConnector, ours.BlockStoreWorker)


def admission_functions_for(impl: Impl, config: EngineConfig) -> AdmissionFunctions | None:
    """Return phase 11; None without adapters and images. Raises `ValueError` if they are asked for and it is absent."""
    if config.max_loras is None and config.encoder_cache_size is None:
        return None
    if impl == "absent":
        asked = "encoder_cache_size" if config.max_loras is None else "max_loras"
        whose = "solution" if solutions_exist() else "starter"
        raise ValueError(f"{asked} needs phase 11 (admission gates), as in LAB_IMPL={whose}:1-6,{whose}:11")
    if impl == "starter":
        from labs.phase11_admission_gates import starter as yours

        return AdmissionFunctions(
            yours.AdapterGate,
            yours.EncoderCacheManager,
            yours.schedule_encoder_inputs,
            yours.generate_block_hash_extra_keys,
            yours.bgmv,
        )
    from solutions import phase11_admission_gates as ours

    return AdmissionFunctions(
        ours.AdapterGate,
        ours.EncoderCacheManager,
        ours.schedule_encoder_inputs,
        ours.generate_block_hash_extra_keys,
        ours.bgmv,
    )


def window_functions_for(impl: Impl) -> WindowFunctions | None:
    """Return phase 12; None if it is absent. Then the engine refuses models with sliding windows."""
    if impl == "absent":
        return None
    if impl == "starter":
        from labs.phase12_sliding_windows import starter as yours

        return WindowFunctions(
            yours.free_outside_window, yours.allocate_groups, yours.find_common_hit, yours.sliding_attention
        )
    from solutions import phase12_sliding_windows as ours

    return WindowFunctions(ours.free_outside_window, ours.allocate_groups, ours.find_common_hit, ours.sliding_attention)


def runner_steps_for(impl: Impl) -> "RunnerSteps":
    """Return phase 6: the functions that the paged model runner is made of. Imports torch."""
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
    """Return phase 6 for a device: with the kernels of its optional tasks where there are any, else in torch alone.

    On a GPU they are written in Triton, on a CPU in C.
    """
    steps = runner_steps_for(impl)
    if device_type == "cpu" and (source := decode_attention_for(impl)) is not None:
        from mini_vllm.runner.compiled import compiled_attention

        return replace(steps, paged_attention=compiled_attention(steps.paged_attention, source))
    kernels = triton_kernels_for(impl) if device_type == "cuda" else None
    if kernels is None:
        return steps
    write_kv, paged_attention = kernels.reshape_and_cache, kernels.paged_attention
    return replace(steps, write_kv=write_kv, paged_attention=paged_attention, can_be_recorded=True)


def triton_kernels_for(impl: Impl) -> ModuleType | None:
    """Return the module of phase 6's optional task; None without triton, or while yours is not written."""
    if find_spec("triton") is None:
        return None
    if impl == "starter":
        from labs.phase6_gpu_runner import starter_triton as yours

        return yours if is_written(yours) else None
    from solutions import phase6_triton_kernels as ours

    return ours


def decode_attention_of(impl: Impl) -> Path:
    """Return the C file of phase 6's optional task, written or not."""
    checkout = Path(__file__).resolve().parents[2]
    if impl == "starter":
        return checkout / "labs" / "phase6_gpu_runner" / "starter_decode_attention.c"
    return checkout / "solutions" / "phase6_decode_attention.c"


def decode_attention_for(impl: Impl) -> Path | None:
    """Return that file if it can be used; None without a compiler, or while yours is not written."""
    from mini_vllm.runner.c_starter import unwritten_task
    from mini_vllm.runner.compiled import can_compile

    source = decode_attention_of(impl)
    return source if not unwritten_task(source.read_text(encoding="utf-8")) and can_compile() else None


def is_written(module: ModuleType) -> bool:
    """Return whether no function of a module raises `NotImplementedError`; kernels cannot be called to find out."""
    raised = [node.exc for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Raise)]
    return not any(exc is not None and ast.unparse(exc).startswith("NotImplementedError") for exc in raised)
