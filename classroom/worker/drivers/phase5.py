"""What is done with phase 5's functions outside of an engine."""

from collections import Counter
from typing import Any

from classroom.worker.drivers.attempt import Result
from mini_vllm.core.absent import SlotReservation
from mini_vllm.core.interfaces import Clamp
from mini_vllm.core.request import Request


def num_new_tokens(file: Any, clamp: Clamp, cases: list[tuple[list[Any], tuple[Request, int, int]]]) -> Result:
    """Ask a chunk policy with the settings, over the judge's clamp, for each case."""
    policies = [file.ChunkedPrefillPolicy(clamp, *settings) for settings, _ in cases]
    return [policy.num_new_tokens(*case) for policy, (_, case) in zip(policies, cases, strict=True)]


class GivenMemory(SlotReservation):
    """Memory in a given state, to look at only."""

    def __init__(self, block_size: int, tables: dict[str, list[int]], free: list[int]) -> None:
        super().__init__(len(free) + len({block for table in tables.values() for block in table}), 100)
        self.block_size = block_size
        self.tables = tables
        self.free_blocks = free

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_blocks)

    def block_ids(self, request_id: str) -> list[int]:
        return list(self.tables.get(request_id, []))

    def free_block_ids(self) -> list[int]:
        return list(self.free_blocks)

    def ref_counts(self) -> dict[int, int]:
        return dict(Counter(block for table in self.tables.values() for block in table))


def admits(file: Any, clamp: Clamp, cases: list[tuple[list[Request], list[Any]]]) -> Result:
    """Ask the admission guard, for each case."""
    answers = Result()
    for (request, *running), (is_guarded, block_size, tables, hits, free) in cases:
        held = {other.request_id: table for other, table in zip(running, tables, strict=True)}
        policy = file.ChunkedPrefillPolicy(clamp, 0, 100, True, is_guarded)
        answers.append(bool(policy.admits(request, hits, running, GivenMemory(block_size, held, free))))
    return answers


def should_sample(file: Any, clamp: Clamp, settings: list[Any], cases: list[tuple[Request, int]]) -> Result:
    """Return a chunk policy's `should_sample` for each case."""
    policy = file.ChunkedPrefillPolicy(clamp, *settings)
    return [bool(policy.should_sample(*case)) for case in cases]
