"""Proxies for the peer's phases 2 and 4."""

from collections.abc import Sequence
from typing import Any

from classroom.worker.encoding import Exported
from classroom.worker.proxy import Proxy
from mini_vllm.core.request import Request


class RemoteKVCacheManager(Proxy):
    """The peer's phase 2."""

    @property
    def block_size(self) -> int:
        return self.call("block_size")  # type: ignore[no-any-return]

    @property
    def num_usable_blocks(self) -> int:
        return self.call("num_usable_blocks")  # type: ignore[no-any-return]

    @property
    def num_free_blocks(self) -> int:
        return self.call("num_free_blocks")  # type: ignore[no-any-return]

    @property
    def usage(self) -> float:
        return self.call("usage")  # type: ignore[no-any-return]

    def get_computed_blocks(self, request: Request) -> list[int]:
        return self.call("get_computed_blocks", request)  # type: ignore[no-any-return]

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        hit_blocks: Sequence[int] = (),
        num_lookahead_tokens: int = 0,
    ) -> list[int] | None:
        return self.call("allocate_slots", request, num_new_tokens, hit_blocks, num_lookahead_tokens)  # type: ignore[no-any-return]

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.call("free", request, num_computed_tokens)

    def block_ids(self, request_id: str) -> list[int]:
        return self.call("block_ids", request_id)  # type: ignore[no-any-return]

    def free_block_ids(self) -> list[int]:
        return self.call("free_block_ids")  # type: ignore[no-any-return]

    def ref_counts(self) -> dict[int, int]:
        return self.call("ref_counts")  # type: ignore[no-any-return]


class RemotePool(Proxy):
    """The part of the peer's phase 2 that phase 4 uses."""

    def touch(self, block_id: int) -> None:
        self.call("touch", block_id)


class RemotePrefixCache(Proxy):
    """The peer's phase 4."""

    def update_block_hashes(self, request: Request) -> None:
        self.call("update_block_hashes", request)

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        return self.call("find_longest_cache_hit", request)  # type: ignore[no-any-return]

    def pin(self, request: Request, block_ids: Sequence[int], pool: Any) -> None:
        self.call("pin", request, block_ids, Exported(pool, "pool"))

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.call("cache_full_blocks", request, block_ids, num_cached_blocks, num_full_blocks)

    def evict(self, block_id: int) -> bool:
        return self.call("evict", block_id)  # type: ignore[no-any-return]

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        self.call("drop_uncomputed", block_ids)

    def cached_blocks(self) -> dict[int, bytes]:
        return self.call("cached_blocks")  # type: ignore[no-any-return]

    def hit_rate(self) -> float:
        return self.call("hit_rate")  # type: ignore[no-any-return]
