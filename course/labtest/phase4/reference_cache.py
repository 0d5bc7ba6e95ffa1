"""The blocks that are cached, without hashes: for every block all its tokens from the first one on."""

from collections.abc import Mapping, Sequence

from mini_vllm.core.request import Request

Prefix = tuple[str | None, str | None, tuple[int, ...]]


class RecordingPool:
    """The part of the block pool that phase 4 uses; it records which blocks were touched."""

    def __init__(self) -> None:
        self.touched: list[int] = []

    def touch(self, block_id: int) -> None:
        self.touched.append(block_id)


class CachedPrefixes:
    """Keeps whole prefixes. The blocks are in the order in which they were cached."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.prefix_of_block: dict[int, Prefix] = {}

    def prefix(self, request: Request, num_blocks: int) -> Prefix:
        tokens = tuple(request.all_token_ids[: num_blocks * self.block_size])
        return request.cache_salt, request.adapter_id, tokens

    def enter(self, request: Request, table: Sequence[int], first: int, end: int) -> None:
        for index in range(first, end):
            self.prefix_of_block[table[index]] = self.prefix(request, index + 1)

    def forget(self, block_id: int) -> bool:
        return self.prefix_of_block.pop(block_id, None) is not None

    def describe(self) -> str:
        """Return the blocks with the tokens they stand for, and the salt and adapter where there are any."""
        blocks = []
        for block_id, (salt, adapter, tokens) in self.prefix_of_block.items():
            named = {"salt": salt, "adapter": adapter}
            keys = "".join(f" {name}={key!r}" for name, key in named.items() if key is not None)
            blocks.append(f"block {block_id} has {''.join(map(str, tokens))}{keys}")
        return ", ".join(blocks) or "nothing"


def classes(content_of_block: Mapping[int, object]) -> set[frozenset[int]]:
    """Return the sets of blocks that hold the same content."""
    blocks_of: dict[object, set[int]] = {}
    for block_id, content in content_of_block.items():
        blocks_of.setdefault(content, set()).add(int(block_id))
    return {frozenset(blocks) for blocks in blocks_of.values()}
