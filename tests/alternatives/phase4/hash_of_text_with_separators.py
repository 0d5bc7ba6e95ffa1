"""What a block holds is written as text with separators and hashed as blake2b; a subclass only counts."""

import hashlib
from collections.abc import Sequence

from mini_vllm.core.interfaces import BlockPool
from mini_vllm.core.request import Request
from solutions.phase4_prefix_cache import HashPrefixCache as Given


def hash_block(parent_hash: bytes, token_ids: Sequence[int], extra_keys: Sequence[str | None] = ()) -> bytes:
    text = " ".join(str(int(token_id)) for token_id in token_ids)
    keys = repr(tuple(extra_keys)) if any(key is not None for key in extra_keys) else ""
    return hashlib.blake2b(parent_hash + f"{text}|{keys}".encode(), digest_size=32).digest()


class HashPrefixCache(Given):
    def __init__(self, block_size: int) -> None:
        super().__init__(block_size)
        self.history: list[tuple[int, int]] = []

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        self.history.append((len(block_ids) * self.block_size, request.num_tokens))
        for block_id in block_ids:
            pool.touch(block_id)

    def hit_rate(self) -> float:
        supplied, asked = map(sum, zip(*self.history, strict=True)) if self.history else (0, 1)
        return supplied / asked
