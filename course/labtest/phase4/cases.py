"""Requests, caches and checked calls that several tasks of phase 4 use."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType

from course.labtest.crash_hints import CrashHint, learners_call
from course.labtest.expect import as_block_ids, expect_unchanged
from course.labtest.support import fields_of, make_request
from mini_vllm.core.interfaces import BlockPool, PrefixCache
from mini_vllm.core.request import Request

ABC = [11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33, 34]  # three full blocks of four: A, B and C

BYTES_PER_TOKEN = "a token id may be far over 255 and over 65535: how many bytes does yours have for each?"

CRASH_HINTS = (
    CrashHint(StopIteration, "which entry of your map is empty here, and what should have become of it?"),
    CrashHint(
        IndexError,
        "how long are the table and the request's list of hashes at this moment, and which call makes the hashes?",
        inside="cache_full_blocks",
    ),
    CrashHint(
        KeyError,
        "a block leads to a hash that is not in your map from hash to blocks. Was it never entered, taken out too "
        "early, or was the block kept too long?",
        inside="evict",
        word="\\x",  # the key is a hash; a block id is printed as a number
    ),
    CrashHint(
        KeyError,
        "was the block never cached, or is it out of one of your two maps and still in the other? What do `evict` and "
        "`drop_uncomputed` take out of each?",
        inside="evict",
    ),
    CrashHint(ValueError, BYTES_PER_TOKEN, inside="hash_block", word="range(0, 256)"),
    CrashHint((OverflowError, struct.error), BYTES_PER_TOKEN, inside="hash_block"),
    CrashHint(KeyError, "a hash need not be in the cache: where does a hit end?", inside="find_longest_cache_hit"),
)


def request_of(
    name: str, token_ids: Sequence[int], *, salt: str | None = None, adapter: str | None = None, num_outputs: int = 0
) -> Request:
    num_prompt_tokens = len(token_ids) - num_outputs
    request = make_request(name, 0, token_ids=token_ids[:num_prompt_tokens])
    request.all_token_ids += token_ids[num_prompt_tokens:]
    request.cache_salt, request.adapter_id = salt, adapter
    return request


def pairs_with_equal_lengths() -> list[tuple[str, str]]:
    """Return pairs of keys that run together if each stands after its length modulo 256, and perhaps after a mark."""
    pairs, end = list[tuple[str, str]](), "e" * 20
    for tag in ("", "x", "s"):
        for length in dict.fromkeys((chr(len(end)), chr(len(tag + end)))):
            begin = "b" * (256 - len(length + tag))
            pairs += [("", begin + length + tag + end), (length + tag + begin, end)]
    return pairs


@contextmanager
def leaves_alone(call: str, request: Request | None = None, **lists: Sequence[int]) -> Iterator[None]:
    """Check that a call changes nothing of a request but `block_hashes`, and none of the lists that it is given."""
    before = _values(request, lists)
    situation = [call] if request is None else [f"{call}; the request has {request.num_tokens} tokens"]
    with learners_call(situation, CRASH_HINTS):
        yield
    expect_unchanged(
        _values(request, lists),
        before,
        rule="The prefix cache may append to a request's block_hashes. It changes nothing else of the request, and "
        "none of the lists that it is given: phase 2 goes on using them.",
        situation=situation,
        hint="which of your lines assigns to a part of an argument, or changes a list of it in place?",
    )


def _values(request: Request | None, lists: Mapping[str, Sequence[int]]) -> dict[str, object]:
    fields = {} if request is None else {f"request.{name}": value for name, value in fields_of(request).items()}
    fields.pop("request.block_hashes", None)
    return fields | {name: list(values) for name, values in lists.items()}


def hash_of(phase4: ModuleType, parent: bytes, token_ids: Sequence[int], keys: Sequence[str | None] = ()) -> bytes:
    with learners_call([f"hash_block(parent_hash, {token_ids}, {keys})"], CRASH_HINTS):
        digest: bytes = phase4.hash_block(parent, token_ids, keys)
    return digest


def hit(cache: PrefixCache, request: Request) -> list[int]:
    call = f"find_longest_cache_hit({request.request_id})"
    with leaves_alone(call, request):
        answer = cache.find_longest_cache_hit(request)
    return as_block_ids(answer, "find_longest_cache_hit", [call])


def commit(cache: PrefixCache, request: Request, table: Sequence[int], first: int, end: int) -> None:
    call = f"cache_full_blocks({request.request_id}, {table}, {first}, {end})"
    with leaves_alone(call, request, block_ids=table):
        cache.cache_full_blocks(request, table, first, end)


def pin(cache: PrefixCache, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
    with leaves_alone(f"pin({request.request_id}, {block_ids}, pool)", request, block_ids=block_ids):
        cache.pin(request, block_ids, pool)


def drop(cache: PrefixCache, block_ids: Sequence[int]) -> None:
    with leaves_alone(f"drop_uncomputed({block_ids})", block_ids=block_ids):
        cache.drop_uncomputed(block_ids)


def update(cache: PrefixCache, request: Request) -> list[bytes]:
    """Bring the hashes up to date and return a copy of them."""
    with leaves_alone(f"update_block_hashes({request.request_id})", request):
        cache.update_block_hashes(request)
    return list(request.block_hashes)


def evict(cache: PrefixCache, block_id: int) -> bool:
    with leaves_alone(f"evict({block_id})"):
        return cache.evict(block_id)


def cached_ids(cache: PrefixCache) -> list[int]:
    return sorted(int(block_id) for block_id in cache.cached_blocks())


def cache_with_abc(phase4: ModuleType, table: Sequence[int] = (7, 5, 9)) -> PrefixCache:
    """Return a cache of block size 4 in which blocks A, B and C of request `first` are in `table`."""
    cache: PrefixCache = phase4.HashPrefixCache(4)
    commit(cache, request_of("first", ABC), list(table), 0, 3)
    return cache


class RecordingPool:
    """The part of the block pool that phase 4 uses; it records which blocks were touched."""

    def __init__(self) -> None:
        self.touched: list[int] = []

    def touch(self, block_id: int) -> None:
        self.touched.append(block_id)
