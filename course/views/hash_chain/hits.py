"""The hits of a prefix cache for prompts that arrive one after another."""

from collections.abc import Mapping, Sequence

from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request


def hits_of(
    prompts: Mapping[str, Sequence[int]],
    cache: PrefixCache,
    block_size: int,
    salts: Mapping[str, str] | None = None,
    adapters: Mapping[str, str] | None = None,
) -> dict[str, list[int]]:
    """Look up each prompt's hit in a phase-4 cache, then enter its blocks as if it had been served.

    Returns the blocks of each hit by name. Every prompt gets new blocks after its hit, numbered 1, 2, 3, ...
    """
    found: dict[str, list[int]] = {}
    next_block = 1
    for name, token_ids in prompts.items():
        salt, adapter = (salts or {}).get(name), (adapters or {}).get(name)
        request = Request(name, list(token_ids), cache_salt=salt, adapter_id=adapter)
        found[name] = cache.find_longest_cache_hit(request)
        num_full = len(token_ids) // block_size
        table = [*found[name], *range(next_block, next_block + num_full - len(found[name]))]
        next_block += num_full - len(found[name])
        cache.cache_full_blocks(request, table, len(found[name]), num_full)
    return found
