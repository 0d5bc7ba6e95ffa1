"""Builds a scheduler from phases 1 to 5, wrapped in one layer per feature that the config enables."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mini_vllm.assembly.cache_layers import CacheLayer, wrapped
from mini_vllm.assembly.elective_parts import Electives
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import (
    block_pool_for,
    chunk_policy_for,
    kv_cache_manager_for,
    preemption_for,
    prefix_cache_for,
    request_queue_for,
    scheduling_functions_for,
)
from mini_vllm.assembly.scheduler_layers import SchedulerLayers
from mini_vllm.config import EngineConfig
from mini_vllm.core.absent import NoGates
from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.scheduler_parts import SchedulerParts
from mini_vllm.electives.gates.connector import KVConnector
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.electives.windows.counted_pool import CountedPool
from mini_vllm.electives.windows.grouped_kv_cache import GroupedKVCacheManager
from mini_vllm.electives.windows.grouped_prefix_cache import GroupedPrefixCache
from mini_vllm.electives.windows.window_functions import Tables, WindowFunctions, require_window_functions

if TYPE_CHECKING:
    from mini_vllm.electives.releases.release_functions import ReleaseFunctions
    from mini_vllm.electives.releases.step_state import StepState


def build_scheduler(
    config: EngineConfig,
    lineup: Lineup,
    on_evict: Callable[[int], object] | None = None,
    *,
    make_connector: Callable[[], KVConnector] | None = None,
    windows: Sequence[int | None] = (None,),
    policy: SchedulingPolicy | None = None,
    clock: Callable[[], float] = time.monotonic,
    images_have_places: bool = True,
    electives: Electives | None = None,
    releases: "ReleaseFunctions | None" = None,
) -> Scheduler:
    """Assemble phases 1 to 5, wrapped in phases 7, 8, 11 and the other gates if the config needs them.

    `config` must be resolved. `on_evict` is called with the id of every block that the prefix cache evicts. `windows`
    has one entry per group of layers: the number of tokens that its attention can reach. None, which means all tokens,
    comes first. `make_connector` returns the scheduler side of KV transfers and is called again after a restart.
    `policy` replaces the config's policy; it uses `clock`, which also timestamps arrivals. Without `images_have_places`
    a block's hash ignores where its images begin, as in vLLM 0.13.0. `electives` are the lineup's electives if they
    have already been built; `releases` replaces the lineup's phase 14. Raises `ValueError` if config and lineup are
    incompatible.
    """
    electives, (max_model_len, _) = electives or Electives(lineup, config), config.sizes
    orders_by_priority = config.policy == "priority" if policy is None else policy.uses_priority
    if policy is not None:  # with "fcfs", phase 3 preempts the last request in a list, and the policy orders that list
        config = replace(config, policy="fcfs")
    functions = scheduling_functions_for(lineup.scheduler)
    layers = SchedulerLayers(config, lineup, electives, on_evict, make_connector, policy, clock, images_have_places)
    cache_layers, part_layers = layers.around_prefix_cache(), layers.around_parts()

    states: list[StepState] = []

    def make_parts() -> SchedulerParts:
        kv: KVCacheManager
        groups: GroupedKVCacheManager | None
        step = None
        if (functions_of_release := releases or electives.releases) is not None:
            # Imported locally, because 0.13.0's default rules do not need any of its ten modules.
            from mini_vllm.assembly.newer_release import new_step_state, newer_kv_cache

            step = new_step_state(config, functions_of_release, states)
            kv = groups = newer_kv_cache(step, lineup, windows, electives.windows, cache_layers)
            prefix_cache = groups.layered_cache
        elif list(windows) == [None]:
            prefix_cache = wrapped(prefix_cache_for(lineup.prefix_cache, config), cache_layers)
            kv, groups = kv_cache_manager_for(lineup.kv_cache, config, prefix_cache), None
        else:
            window_functions = require_window_functions(electives.windows)
            kv = groups = _groups(config, lineup, windows, window_functions, cache_layers)
            prefix_cache = groups.layered_cache
        parts = SchedulerParts(
            functions=functions,
            kv=kv,
            prefix_cache=prefix_cache,
            preemption=preemption_for(lineup.preemption, config),
            chunks=chunk_policy_for(lineup.chunking, config, step.clamp(functions.clamp) if step else functions.clamp),
            waiting=request_queue_for(lineup.preemption, config),
            gates=NoGates(),
            groups=None if list(windows) == [None] else groups,
            release=step,
        )
        for layer in part_layers:
            parts = layer(parts)
        return parts

    # For each step in flight, a request keeps slots for rejected drafts and for the next drafts. Without phase 2, a
    # request reserves enough slots to reach its maximum length.
    num_drafts = config.speculative_config.num_speculative_tokens if config.speculative_config else 0
    num_spare_tokens = (2 + config.async_scheduling) * num_drafts
    return Scheduler(
        max_num_seqs=min(config.max_num_seqs, config.max_num_active_seqs or config.max_num_seqs),
        max_num_batched_tokens=config.max_num_scheduled_tokens or config.max_num_batched_tokens,
        max_model_len=max_model_len,
        make_parts=make_parts,
        num_spare_tokens=max_model_len if lineup.kv_cache == "absent" else num_spare_tokens,
        orders_by_priority=orders_by_priority,
        has_policy=policy is not None,
    )


def _groups(
    config: EngineConfig,
    lineup: Lineup,
    windows: Sequence[int | None],
    functions: WindowFunctions,
    cache_layers: Sequence[CacheLayer],
) -> GroupedKVCacheManager:
    """Return phase 12's manager, which replaces phases 2 and 4: one pool, with tables and a cache per layer group."""
    if lineup.kv_cache == "absent":
        raise ValueError("a model with sliding windows needs phase 2 (block pool), because its layers share one pool")
    tables: dict[str, Tables] = {}
    caches, grouped = [prefix_cache_for(lineup.prefix_cache, config) for _ in windows], None
    prefix_cache = caches[0]
    if config.enable_prefix_caching and lineup.prefix_cache != "absent":
        prefix_cache = grouped = GroupedPrefixCache(functions, caches, config.block_size, windows, tables)
    prefix_cache, num_gpu_blocks = wrapped(prefix_cache, cache_layers), config.sizes[1]
    pool = CountedPool(block_pool_for(lineup.kv_cache, num_gpu_blocks, prefix_cache), num_gpu_blocks)
    # A step is planned while the previous step's drafts are verified; each rejected draft moves the window back.
    speculative = config.speculative_config if config.async_scheduling else None
    num_uncertain = speculative.num_speculative_tokens if speculative else 0
    return GroupedKVCacheManager(
        functions, pool, config.block_size, windows, prefix_cache, grouped, tables, num_uncertain
    )
