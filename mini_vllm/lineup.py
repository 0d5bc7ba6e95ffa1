"""Whose code runs in which phase, and the one place that imports it.

`LAB_IMPL` names a lineup: `solution`, `starter`, or ranges such as `starter:1-3,solution:4-6`. A phase
that is not listed is absent. The imports stand inside the functions, so that only what is used is
loaded and a checkout without `solutions/` works.
"""

import importlib.util
import os
from collections.abc import Callable
from dataclasses import astuple, dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, get_args

from mini_vllm.absent import NoPreemption, NoPrefixCache, SlotReservation, WholePrompts
from mini_vllm.config import EngineConfig
from mini_vllm.interfaces import (
    ChunkPolicy,
    Clamp,
    KVCacheManager,
    Preemption,
    PrefixCache,
    RequestQueue,
    SchedulerStep,
)
from mini_vllm.request_queue import FCFSRequestQueue

if TYPE_CHECKING:
    from mini_vllm.model.steps import RunnerSteps

Impl = Literal["starter", "solution", "absent"]
PHASE_NAMES = ("scheduler step", "block pool", "preemption", "prefix cache", "chunked prefill", "GPU runner")


@dataclass(frozen=True, slots=True)
class Lineup:
    """The implementation of each phase, 1 to 6. Raises `ValueError` if the phases cannot work together."""

    scheduler: Impl = "absent"
    kv_cache: Impl = "absent"
    preemption: Impl = "absent"
    prefix_cache: Impl = "absent"
    chunking: Impl = "absent"
    runner: Impl = "absent"

    def __post_init__(self) -> None:
        for phase, impl in enumerate(astuple(self), start=1):
            if impl not in get_args(Impl):
                raise ValueError(f"phase {phase} must be one of {', '.join(get_args(Impl))}; got {impl!r}")
        if self.scheduler == "absent":
            raise ValueError("phase 1 (scheduler step) cannot be absent: without it nothing is ever scheduled")
        if self.prefix_cache != "absent" and self.kv_cache == "absent":
            raise ValueError("phase 4 (prefix cache) needs phase 2 (block pool): what it shares are blocks")

    def __getitem__(self, phase: int) -> Impl:
        """Return the implementation of a phase, counted from 1."""
        impls: tuple[Impl, ...] = astuple(self)
        return impls[phase - 1]

    def __str__(self) -> str:
        """Return the lineup in the shortest form that `parse_lineup` reads."""
        runs: list[str] = []
        for impl, group in groupby(enumerate(astuple(self), start=1), key=itemgetter(1)):
            phases = [phase for phase, _ in group]
            if len(phases) == len(PHASE_NAMES):
                return str(impl)
            if impl != "absent":
                runs.append(f"{impl}:{phases[0]}" + (f"-{phases[-1]}" if len(phases) > 1 else ""))
        return ",".join(runs)

    def describe(self) -> str:
        """Return one line for people: every phase and whose code it is."""
        whose = {"starter": "yours", "solution": "reference", "absent": "absent"}
        return ", ".join(
            f"{phase} {name}: {whose[impl]}"
            for phase, (name, impl) in enumerate(zip(PHASE_NAMES, astuple(self), strict=True), start=1)
        )


def solutions_exist() -> bool:
    """Return whether this checkout has the reference solutions (a student edition has not)."""
    spec = importlib.util.find_spec("solutions")
    return spec is not None and spec.origin is not None  # a folder that is left over has no origin


def default_lineup_text() -> str:
    """Return what `LAB_IMPL` means when it is not set: the reference where there is one, else yours."""
    return "solution" if solutions_exist() else "starter"


def lineup_from_env() -> Lineup:
    """Return the lineup that `LAB_IMPL` names, or the default. Raises `ValueError` if it names none."""
    return parse_lineup(os.environ.get("LAB_IMPL") or default_lineup_text())


def parse_lineup(text: str) -> Lineup:
    """Read a lineup such as `starter`, `solution:1-4` or `starter:1-3,solution:4-6`.

    Raises `ValueError` that says which part is wrong and what would be right.
    """
    if text.strip() in ("starter", "solution"):
        return Lineup(*[_impl(text)] * len(PHASE_NAMES))
    impls: list[Impl] = ["absent"] * len(PHASE_NAMES)
    for item in text.split(","):
        name, colon, phases = item.partition(":")
        if not colon:
            raise ValueError(
                f"LAB_IMPL={text!r}: {item.strip()!r} names no phases; write it as in 'starter:1-3,solution:4-6'"
            )
        for phase in _phase_range(phases, text):
            if impls[phase - 1] != "absent":
                raise ValueError(f"LAB_IMPL={text!r}: phase {phase} is listed twice")
            impls[phase - 1] = _impl(name)
    return Lineup(*impls)


def _impl(name: str) -> Impl:
    match name.strip():
        case "starter":
            return "starter"
        case "solution" if solutions_exist():
            return "solution"
        case "solution":
            raise ValueError("this checkout has no reference solutions (it is a student edition): use 'starter'")
    raise ValueError(f"an implementation is 'starter' or 'solution', got {name.strip()!r}")


def _phase_range(phases: str, text: str) -> range:
    first, _, last = phases.strip().partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise ValueError(f"LAB_IMPL={text!r}: {phases!r} is not a phase (1 to 6) or a range such as 1-3")
    chosen = range(int(first), int(last or first) + 1)
    if not chosen or chosen[0] < 1 or chosen[-1] > len(PHASE_NAMES):
        raise ValueError(f"LAB_IMPL={text!r}: {phases!r} must lie within phases 1 to {len(PHASE_NAMES)}")
    return chosen


def scheduler_step_for(impl: Impl) -> SchedulerStep:
    """Return phase 1."""
    if impl == "starter":
        from labs.phase1_scheduler_step import starter as yours

        return SchedulerStep(yours.clamp, yours.schedule_step, yours.update_from_output)
    from solutions import phase1_scheduler_step as ours

    return SchedulerStep(ours.clamp, ours.schedule_step, ours.update_from_output)


def kv_cache_manager_for(impl: Impl, config: EngineConfig, prefix_cache: PrefixCache) -> KVCacheManager:
    """Return phase 2 over the blocks that `config` grants; absent, over as many single slots."""
    num_gpu_blocks, max_model_len = config.num_gpu_blocks, config.max_model_len
    assert num_gpu_blocks is not None
    assert max_model_len is not None
    if impl == "starter":
        from labs.phase2_block_pool.starter import PagedKVCacheManager as Yours

        return Yours(num_gpu_blocks, config.block_size, prefix_cache)
    if impl == "solution":
        from solutions.phase2_block_pool import PagedKVCacheManager as Ours

        return Ours(num_gpu_blocks, config.block_size, prefix_cache)
    return SlotReservation((num_gpu_blocks - 1) * config.block_size, max_model_len)


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
    """Return phase 4, or the cache that never finds anything."""
    if impl == "absent" or not config.enable_prefix_caching:
        return NoPrefixCache()
    if impl == "starter":
        from labs.phase4_prefix_cache.starter import HashPrefixCache as Yours

        return Yours(config.block_size)
    from solutions.phase4_prefix_cache import HashPrefixCache as Ours

    return Ours(config.block_size)


def chunk_policy_for(impl: Impl, config: EngineConfig, clamp: Clamp) -> ChunkPolicy:
    """Return phase 5, built on the clamp of phase 1."""
    max_model_len = config.max_model_len
    assert max_model_len is not None
    if impl == "absent":
        config.require_whole_prompts_fit("phase 5 (chunked prefill) is absent")
        return WholePrompts(clamp)
    make: Callable[[Clamp, int, int, bool, bool], ChunkPolicy]
    if impl == "starter":
        from labs.phase5_chunked_prefill.starter import ChunkedPrefillPolicy as Yours

        make = Yours
    else:
        from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy as Ours

        make = Ours
    return make(
        clamp,
        config.long_prefill_token_threshold,
        max_model_len,
        config.enable_chunked_prefill,
        config.admission_guard,
    )


def runner_steps_for(impl: Impl) -> "RunnerSteps":
    """Return phase 6: the functions that the paged model runner is made of. Imports torch."""
    from mini_vllm.model.steps import RunnerSteps

    if impl == "starter":
        from labs.phase6_gpu_runner import starter as yours

        return RunnerSteps.of(yours)
    from solutions import phase6_gpu_runner as ours

    return RunnerSteps.of(ours)
