"""Builds the parts of a scheduler that follows rules newer than vLLM 0.13.0."""

from collections import ChainMap
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from mini_vllm.assembly.cache_layers import CacheLayer, wrapped
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import block_pool_for, prefix_cache_for, request_queue_for
from mini_vllm.config import EngineConfig
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.scheduler_parts import SchedulerParts
from mini_vllm.electives.async_scheduling import AsyncScheduling
from mini_vllm.electives.gates.gated import AdmissionGates, ChangedGates
from mini_vllm.electives.prefix_caches import CheckedPrefixCache
from mini_vllm.electives.releases.around_phases import NewerChunks, NewerFunctions, NewerPreemption, SharesCounted
from mini_vllm.electives.releases.entries import CountedEntries
from mini_vllm.electives.releases.freed_first import FreedFirstPool
from mini_vllm.electives.releases.holders_first import HoldersFirst
from mini_vllm.electives.releases.newer_ahead import NewerSpeculation, NewerTokensAhead
from mini_vllm.electives.releases.newer_kv_cache import WITHOUT_WINDOWS, NewerKVCacheManager
from mini_vllm.electives.releases.release_functions import ReleaseFunctions
from mini_vllm.electives.releases.retention import RetainedWindows
from mini_vllm.electives.releases.step_state import StepState
from mini_vllm.electives.speculation import Speculation
from mini_vllm.electives.windows.window_functions import Tables, WindowFunctions, require_window_functions
from mini_vllm.electives.wrappers import WrappedPrefixCache

Kind = TypeVar("Kind", bound=WrappedPrefixCache)


def new_step_state(config: EngineConfig, functions: ReleaseFunctions, states: list[StepState]) -> StepState:
    """Return a new state and store it in `states`, replacing the previous one. A restart does not end a pause."""
    step = StepState(config, functions)
    step.pause_state = states.pop().pause_state if states else step.pause_state
    states.append(step)
    return step


def newer_kv_cache(
    step: StepState,
    lineup: Lineup,
    windows: Sequence[int | None],
    functions: WindowFunctions | None,
    cache_layers: Sequence[CacheLayer],
) -> NewerKVCacheManager:
    """Build the engine's KV cache manager from phase 2's queue and pool, phase 4's cache, and, for windows, phase 12.

    Phase 2's manager is not used, because it cannot allocate a freed block ahead of the others. Raises `ValueError`
    without phase 2, or without phase 12 if there are windows.
    """
    config, tables = step.config, dict[str, Tables]()
    if lineup.kv_cache == "absent":
        raise ValueError(f"vllm={config.vllm!r} needs phase 2 (block pool), because its rules apply to blocks")
    has_windows = list(windows) != [None]
    functions = require_window_functions(functions) if has_windows else WITHOUT_WINDOWS
    caches, grouped = [prefix_cache_for(lineup.prefix_cache, config) for _ in windows], None
    prefix_cache = caches[0]
    if has_windows and config.enable_prefix_caching and lineup.prefix_cache != "absent":
        interval: Any = config.setting("prefix_cache_retention_interval")
        prefix_cache = grouped = RetainedWindows(
            functions, caches, config.block_size, windows, tables, interval, step.functions
        )
    prefix_cache = wrapped(prefix_cache, cache_layers)
    entries = _layer(CountedEntries, prefix_cache)
    assert entries is not None
    inner = block_pool_for(lineup.kv_cache, config.sizes[1], prefix_cache)
    pool = FreedFirstPool(inner, config.sizes[1], _content(prefix_cache, grouped), step.functions)
    return NewerKVCacheManager(step, functions, pool, windows, prefix_cache, grouped, tables, entries)


def newer_tokens_ahead(
    parts: SchedulerParts, speculation: Speculation | None, async_scheduling: AsyncScheduling | None
) -> NewerTokensAhead:
    """Build the `NewerTokensAhead` of phases 7 and 8."""
    step = _step_of(parts)
    newer = NewerSpeculation(speculation, step) if speculation else None
    return NewerTokensAhead(
        step, newer, async_scheduling, chunks=parts.chunks, kv=parts.kv, prefix_cache=parts.prefix_cache
    )


def newer_waiting(parts: SchedulerParts, lineup: Lineup, *, has_transfers: bool) -> tuple[SchedulerParts, ChangedGates]:
    """Return the parts with the release's waiting queue, and the arguments that the gates need for the release."""
    step, changed = _step_of(parts), ChangedGates()
    if step.rules.block_holders_first and has_transfers:
        step.holders = HoldersFirst(request_queue_for(lineup.preemption, step.config), parts.waiting)
        parts = replace(parts, waiting=step.holders)
    step.defers_frees = step.rules.blocks_in_flight_stay and has_transfers and step.config.async_scheduling
    if step.rules.images_are_passed_over:
        changed["num_tokens_left"] = step.num_tokens_left
    if step.rules.running_adapters_count:
        changed["counted"] = lambda: step.running
    return parts, changed


def use_step_state(gates: AdmissionGates, parts: SchedulerParts) -> None:
    """Make the gates store their lists of requests in the step's state."""
    step = _step_of(parts)
    gates.waiting.deferred, gates.leaving = step.deferred, step.leaving
    step.counts_shares = True


def with_newer_chunks(parts: SchedulerParts) -> SchedulerParts:
    """Add further limits on a request's tokens to those of phase 5."""
    return replace(parts, chunks=NewerChunks(parts.chunks, _step_of(parts)))


def with_newer_steps(parts: SchedulerParts) -> SchedulerParts:
    """Add the outermost layer: step limits, victims and the record of the plan."""
    step = _step_of(parts)
    processed = parts.gates.processed if isinstance(parts.gates, AdmissionGates) else None
    functions = NewerFunctions(parts.functions, step, processed).functions
    preemption = NewerPreemption(parts.preemption, step)
    return replace(parts, functions=functions, preemption=preemption, kv=SharesCounted(parts.kv, step))


def _step_of(parts: SchedulerParts) -> StepState:
    assert isinstance(parts.release, StepState)
    return parts.release


def _content(prefix_cache: PrefixCache, grouped: RetainedWindows | None) -> Collection[int]:
    """Return a view of the ids of all cached blocks, in any group of layers."""
    if grouped is not None:
        return ChainMap(*(named.hash_of_block for named in grouped.named))
    checked = _layer(CheckedPrefixCache, prefix_cache)
    return () if checked is None else checked.hash_of_block


def _layer(kind: type[Kind], prefix_cache: PrefixCache) -> Kind | None:
    while isinstance(prefix_cache, WrappedPrefixCache) and not isinstance(prefix_cache, kind):
        prefix_cache = prefix_cache.inner
    return prefix_cache if isinstance(prefix_cache, kind) else None
