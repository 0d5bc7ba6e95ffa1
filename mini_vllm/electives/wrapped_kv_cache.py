"""A KV cache manager around another one."""

from collections.abc import Sequence

from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request


class WrappedKVCache:
    """A `KVCacheManager` that hands every call on; a subclass changes what it has to."""

    def __init__(self, inner: KVCacheManager) -> None:
        self.inner = inner
        self.block_size = inner.block_size
        self.num_usable_blocks = inner.num_usable_blocks

    @property
    def num_free_blocks(self) -> int:
        return self.inner.num_free_blocks

    def get_computed_blocks(self, request: Request) -> list[int]:
        return self.inner.get_computed_blocks(request)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        return self.inner.allocate_slots(request, num_new_tokens, hit_blocks, num_lookahead_tokens)

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.inner.free(request, num_computed_tokens)

    def block_ids(self, request_id: str) -> list[int]:
        return self.inner.block_ids(request_id)

    def free_block_ids(self) -> list[int]:
        return self.inner.free_block_ids()

    def ref_counts(self) -> dict[int, int]:
        return self.inner.ref_counts()
