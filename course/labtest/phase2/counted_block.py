"""Blocks that count how often they are looked at."""

from mini_vllm.core.block import KVCacheBlock


class LookCounter:
    """How often the blocks that share it were read, changed, compared or hashed."""

    count = 0


class CountedBlock(KVCacheBlock):
    """A block that counts whenever it is read, changed, compared or hashed."""

    def __init__(self, block_id: int, looks: LookCounter) -> None:
        object.__setattr__(self, "looks", looks)  # the method below needs it to count
        super().__init__(block_id)

    def __getattribute__(self, name: str) -> object:
        object.__getattribute__(self, "looks").count += 1
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        object.__getattribute__(self, "looks").count += 1
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        object.__getattribute__(self, "looks").count += 1
        return self is other

    def __hash__(self) -> int:
        object.__getattribute__(self, "looks").count += 1
        return object.__hash__(self)
