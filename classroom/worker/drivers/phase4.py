"""What is done with phase 4's functions outside of an engine."""

from collections.abc import Mapping
from typing import Any

from classroom.worker.drivers.attempt import Operation, Result
from mini_vllm.core.request import Request


def hash_block(file: Any, cases: list[tuple[int | None, list[int], list[str | None]]]) -> Result:
    """Hash blocks whose parents are earlier cases; return for each the first case with the same hash."""
    hashes, first = list[bytes](), dict[bytes, int]()
    for number, (parent, tokens, extra) in enumerate(cases):
        parent_hash = file.ROOT_HASH if parent is None else hashes[parent]
        found = file.hash_block(parent_hash, tokens, tuple(extra)) if extra else file.hash_block(parent_hash, tokens)
        hashes.append(found)
        first.setdefault(found, number)
    return [first[found] for found in hashes]


class TouchLog:
    """A pool that only records which blocks are touched."""

    def __init__(self) -> None:
        self.touched: list[int] = []

    def touch(self, block_id: int) -> None:
        self.touched.append(int(block_id))


def prefix_cache(file: Any, block_size: int, requests: list[Request], operations: list[Operation]) -> Result:
    """Use a prefix cache as phase 2 would; record its answers, its content, equal hashes, and the hit rate."""
    cache, pool, seen = file.HashPrefixCache(block_size), TouchLog(), Result()
    for name, *arguments in operations:
        request = requests[arguments[0]]
        match name:
            case "grow":
                request.all_token_ids.extend(arguments[1])
                cache.update_block_hashes(request)
                seen.append(len(request.block_hashes))
            case "find":
                seen.append(list(cache.find_longest_cache_hit(request)))
            case "pin":
                cache.pin(request, arguments[1], pool)
            case "commit":
                cache.cache_full_blocks(request, *arguments[1:])
            case "evict":
                seen.append(bool(cache.evict(arguments[1])))
            case "drop_uncomputed":
                cache.drop_uncomputed(arguments[1])
        seen.append([alike(cache.cached_blocks()), round(float(cache.hit_rate()), 6), sorted(pool.touched)])
    return seen


def alike(hashes: Mapping[int, bytes]) -> list[list[int]]:
    """Return block ids in order, each with the first one that has the same hash."""
    first: dict[bytes, int] = {}
    return [[block_id, first.setdefault(hashes[block_id], block_id)] for block_id in sorted(hashes)]
