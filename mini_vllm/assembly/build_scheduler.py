"""The scheduler's bill of materials: phases 1 to 5, and around them what a config asks for beyond."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from mini_vllm.assembly.elective_parts import (
    admission_functions_for,
    async_functions_for,
    speculation_functions_for,
    window_functions_for,
)
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import (
    Impl,
    block_pool_for,
    chunk_policy_for,
    hash_block_for,
    kv_cache_manager_for,
    preemption_for,
    prefix_cache_for,
    request_queue_for,
    scheduling_functions_for,
)
from mini_vllm.config import EngineConfig
from mini_vllm.core.absent import NoGates
from mini_vllm.core.interfaces import KVCacheManager, PrefixCache
from mini_vllm.core.observed_prefix_cache import ObservedPrefixCache
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.scheduler_parts import Gates, SchedulerParts
from mini_vllm.electives.async_scheduling import AsyncScheduling
from mini_vllm.electives.gates.admission import AdmissionFunctions
from mini_vllm.electives.gates.connector import KVConnector
from mini_vllm.electives.gates.encoder_gate import EncoderGate
from mini_vllm.electives.gates.gate import Gate, GrammarGate
from mini_vllm.electives.gates.gated import AdmissionGates
from mini_vllm.electives.gates.kv_transfers import KVTransfers
from mini_vllm.electives.gates.prefix_caches import DelayedCommits, ImagesInHashes, SkippablePrefixCache
from mini_vllm.electives.policy.policy_step import PolicyScheduling
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.electives.speculation import Speculation
from mini_vllm.electives.tokens_ahead import TokensAhead
from mini_vllm.electives.windows.grouped_kv_cache import CountedPool, GroupedKVCacheManager, GroupedPrefixCache
from mini_vllm.electives.windows.window_functions import Tables, require_window_functions

Windows = Sequence[int | None]


def build_scheduler(
    config: EngineConfig,
    lineup: Lineup,
    on_evict: Callable[[int], object] | None = None,
    *,
    make_connector: Callable[[], KVConnector] | None = None,
    windows: Windows = (None,),
    policy: SchedulingPolicy | None = None,
    clock: Callable[[], float] = time.monotonic,
    images_have_places: bool = True,
) -> Scheduler:
    """Assemble phases 1 to 5, and around them 7, 8, 11 and the other gates where the config asks for them.

    `config` must be resolved. `on_evict` is called with the id of every block that the prefix cache evicts. `windows`
    has an entry for each group of layers: how many tokens its attention reaches, None for all; that one comes first.
    `make_connector` returns the scheduler side of KV transfers, again after a restart. `policy`
    replaces the config's; its `clock` is the one of the arrival times. Without `images_have_places` a block's hash does
    not tell where its images begin, as in vLLM 0.13.0. Raises `ValueError` if config and lineup do not
    fit together.
    """
    functions, (max_model_len, _) = scheduling_functions_for(lineup.scheduler), config.sizes
    orders_by_priority = config.policy == "priority" if policy is None else policy.uses_priority
    policed = None
    if policy is not None:  # phase 3 as for "fcfs" preempts the last of a list, and the policy orders the list
        policed, config = PolicyScheduling(policy, functions, clock), replace(config, policy="fcfs")
        functions = policed.functions
    admission = admission_functions_for(lineup.gates, config)
    num_drafts = config.speculative_config.num_speculative_tokens if config.speculative_config else 0

    def make_parts() -> SchedulerParts:
        tables: dict[str, Tables] = {}
        prefix_cache, grouped = _prefix_cache(config, lineup, windows, tables, on_evict, admission, images_have_places)
        connector = None if make_connector is None else make_connector()
        commits = None if connector is None else DelayedCommits(prefix_cache)
        if commits is not None:
            prefix_cache = cast(PrefixCache, commits)
        kv = _kv_cache(config, lineup, windows, tables, prefix_cache, grouped)
        groups = kv if isinstance(kv, GroupedKVCacheManager) else None
        chunks = chunk_policy_for(lineup.chunking, config, functions.clamp)
        waiting = request_queue_for(lineup.preemption, config) if policed is None else policed.new_queue()
        speculation = speculation_for(lineup.speculation, config)
        async_scheduling = async_scheduling_for(lineup.async_scheduling, config)
        ahead = None
        if speculation is not None or async_scheduling is not None:
            ahead = TokensAhead(
                speculation, async_scheduling, max_model_len, chunks=chunks, kv=kv, prefix_cache=prefix_cache
            )
            chunks, kv = ahead.chunks, ahead.kv
        transfers = None
        if connector is not None and commits is not None:
            transfers = KVTransfers(connector, kv, commits)
        gates: Gates = NoGates()
        if (others := _gates(config, admission)) or transfers is not None or lineup.structured_output != "absent":
            gates = AdmissionGates([GrammarGate(), *others], transfers, waiting=waiting, chunks=chunks, kv=kv)
            waiting, chunks, kv = gates.waiting, gates.chunks, gates.kv
        preemption = preemption_for(lineup.preemption, config)
        return SchedulerParts(
            kv=kv,
            prefix_cache=prefix_cache.inner if isinstance(prefix_cache, SkippablePrefixCache) else prefix_cache,
            preemption=preemption if policed is None else policed.preemption(preemption),
            chunks=chunks,
            waiting=waiting,
            ahead=ahead,
            gates=gates,
            groups=groups,
        )

    # A request keeps the slots of rejected drafts and of the drafter's next ones, of each step that is in flight;
    # without phase 2 it reserves all.
    num_spare_tokens = (2 + config.async_scheduling) * num_drafts
    return Scheduler(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=max_model_len,
        functions=functions,
        make_parts=make_parts,
        num_spare_tokens=max_model_len if lineup.kv_cache == "absent" else num_spare_tokens,
        orders_by_priority=orders_by_priority,
    )


def _prefix_cache(
    config: EngineConfig,
    lineup: Lineup,
    windows: Windows,
    tables: dict[str, Tables],
    on_evict: Callable[[int], object] | None,
    admission: AdmissionFunctions | None,
    images_have_places: bool,
) -> tuple[PrefixCache, GroupedPrefixCache | None]:
    """Return phase 4 with what is around it, and the part of that which knows groups of layers."""
    prefix_cache = prefix_cache_for(lineup.prefix_cache, config)
    caches = config.enable_prefix_caching and lineup.prefix_cache != "absent"
    hash_block = hash_block_for(lineup.prefix_cache)
    if caches and hash_block is not None and admission is not None:
        images = ImagesInHashes(
            prefix_cache, hash_block, admission.extra_keys, config.block_size, has_places=images_have_places
        )
        prefix_cache = cast(PrefixCache, images)
    grouped = None
    if caches and list(windows) != [None]:
        functions = require_window_functions(window_functions_for(lineup.windows))
        of_groups = [prefix_cache, *(prefix_cache_for(lineup.prefix_cache, config) for _ in windows[1:])]
        prefix_cache = grouped = GroupedPrefixCache(functions, of_groups, config.block_size, windows, tables)
    if caches:
        prefix_cache = SkippablePrefixCache(prefix_cache)
    if on_evict is not None:
        prefix_cache = cast(PrefixCache, ObservedPrefixCache(prefix_cache, on_evict))
    return prefix_cache, grouped


def _kv_cache(
    config: EngineConfig,
    lineup: Lineup,
    windows: Windows,
    tables: dict[str, Tables],
    prefix_cache: PrefixCache,
    grouped: GroupedPrefixCache | None,
) -> KVCacheManager:
    if list(windows) == [None]:
        return kv_cache_manager_for(lineup.kv_cache, config, prefix_cache)
    if lineup.kv_cache == "absent":
        raise ValueError("a model with sliding windows needs phase 2 (block pool): its layers share one pool")
    functions, num_gpu_blocks = require_window_functions(window_functions_for(lineup.windows)), config.sizes[1]
    pool = CountedPool(block_pool_for(lineup.kv_cache, num_gpu_blocks, prefix_cache), num_gpu_blocks)
    # A step is planned while the drafts of the one before are checked: those that fail leave the window further back.
    speculative = config.speculative_config if config.async_scheduling else None
    num_uncertain = speculative.num_speculative_tokens if speculative else 0
    return GroupedKVCacheManager(
        functions, pool, config.block_size, windows, prefix_cache, grouped, tables, num_uncertain
    )


def _gates(config: EngineConfig, admission: AdmissionFunctions | None) -> list[Gate]:
    gates: list[Gate] = []
    if admission is not None and config.max_loras is not None:
        gates.append(admission.make_adapter_gate(config.max_loras))
    if admission is not None and config.max_num_encoder_input_tokens and config.encoder_cache_size:
        cache = admission.make_encoder_cache(config.encoder_cache_size)
        gates.append(EncoderGate(config.max_num_encoder_input_tokens, cache, admission.schedule_encoder_inputs))
    return gates


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
