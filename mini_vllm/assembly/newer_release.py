"""Builds the KV cache manager of a scheduler with rules after vLLM 0.13.0, over phase 2's pool."""

from collections.abc import Sequence
from typing import Any

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import block_pool_for, prefix_cache_for
from mini_vllm.assembly.scheduler_layers import CacheLayer, wrapped
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.electives.releases.entries import CountedEntries
from mini_vllm.electives.releases.freed_first import FreedFirstPool, KnownContent
from mini_vllm.electives.releases.newer_kv_cache import WITHOUT_WINDOWS, NewerKVCacheManager
from mini_vllm.electives.releases.retention import RetainedWindows
from mini_vllm.electives.releases.step_state import StepState
from mini_vllm.electives.windows.window_functions import Tables, WindowFunctions, require_window_functions
from mini_vllm.electives.wrappers import WrappedPrefixCache


def newer_kv_cache(
    step: StepState,
    lineup: Lineup,
    windows: Sequence[int | None],
    functions: WindowFunctions | None,
    cache_layers: Sequence[CacheLayer],
) -> NewerKVCacheManager:
    """Build the engine's KV cache manager from phase 2's queue and pool, phase 4's cache, and phase 12 for windows.

    Phase 2's manager is not used, because it cannot hand out a freed block before the others.
    Raises `ValueError` without phase 2, or without phase 12 if there are windows.
    """
    config, tables = step.config, dict[str, Tables]()
    if lineup.kv_cache == "absent":
        raise ValueError(f"vllm={config.vllm!r} needs phase 2 (block pool), because its rules are about blocks")
    has_windows = list(windows) != [None]
    functions = require_window_functions(functions) if has_windows else WITHOUT_WINDOWS
    content: set[int] = set()
    caches = [KnownContent(prefix_cache_for(lineup.prefix_cache, config), content) for _ in windows]
    prefix_cache: PrefixCache = caches[0]
    grouped = None
    if has_windows and config.enable_prefix_caching and lineup.prefix_cache != "absent":
        interval: Any = config.setting("prefix_cache_retention_interval") if step.rules.windows_cache_the_end else "all"
        prefix_cache = grouped = RetainedWindows(functions, caches, config.block_size, windows, tables, interval)
    prefix_cache = wrapped(prefix_cache, cache_layers)
    pool = FreedFirstPool(
        block_pool_for(lineup.kv_cache, config.sizes[1], prefix_cache),
        config.sizes[1],
        content if step.rules.freed_without_content_first else None,
    )
    return NewerKVCacheManager(step, functions, pool, windows, prefix_cache, grouped, tables, _entries_in(prefix_cache))


def _entries_in(prefix_cache: PrefixCache) -> CountedEntries:
    while not isinstance(prefix_cache, CountedEntries):
        assert isinstance(prefix_cache, WrappedPrefixCache)
        prefix_cache = prefix_cache.inner
    return prefix_cache
