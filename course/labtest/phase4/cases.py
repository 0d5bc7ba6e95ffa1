"""Situations and checks that several tasks of phase 4 use."""

from collections.abc import Sequence
from types import ModuleType

from course.labtest.support import as_ints, make_request
from mini_vllm.core.request import Request
from mini_vllm.seams.interfaces import PrefixCache

ABC = [11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33, 34]  # three full blocks of four: A, B and C


def request_of(
    name: str, token_ids: Sequence[int], *, salt: str | None = None, adapter: str | None = None, num_outputs: int = 0
) -> Request:
    """Return a request; its last `num_outputs` tokens are generated ones."""
    num_prompt_tokens = len(token_ids) - num_outputs
    request = make_request(name, 0, token_ids=token_ids[:num_prompt_tokens])
    request.all_token_ids += token_ids[num_prompt_tokens:]
    request.cache_salt, request.adapter_id = salt, adapter
    return request


def hit(cache: PrefixCache, request: Request) -> list[int]:
    return as_ints(cache.find_longest_cache_hit(request), "find_longest_cache_hit")


def cached_ids(cache: PrefixCache) -> list[int]:
    return sorted(int(block_id) for block_id in cache.cached_blocks())


def cache_with_abc(phase4: ModuleType, table: Sequence[int] = (7, 5, 9)) -> PrefixCache:
    """Return a cache of block size 4 in which blocks A, B and C of request `first` are in `table`."""
    cache: PrefixCache = phase4.HashPrefixCache(4)
    cache.cache_full_blocks(request_of("first", ABC), table, 0, 3)
    return cache
