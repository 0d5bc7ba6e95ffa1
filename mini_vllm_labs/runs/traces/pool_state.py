"""Computes the block pool after a step from step records: free queue, cached blocks, and moves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.step_record import ScheduledRecord, StepRecord


@dataclass
class PoolState:
    """The free queue, front first, and the cached blocks, both as of the end of the step.

    Records with `detail` contain both. Without `detail` (most recorded traces), both follow from the rules: take from
    the front, free to the back, last block of a table first. `taken` and `freed` are this step's moves in order;
    `freed` contains (request id, blocks in queue order).
    """

    num_blocks: int
    block_size: int
    prefix_caching: bool = True
    free_queue: list[int] = field(default_factory=list)
    cached: set[int] = field(default_factory=set)
    taken: list[int] = field(default_factory=list)
    freed: list[tuple[str, list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free_queue = self.free_queue or list(range(1, self.num_blocks + 1))

    def advance(
        self,
        record: StepRecord,
        tables: Mapping[str, Sequence[int]],
        computed: Mapping[str, int],
        num_tokens: Mapping[str, int],
    ) -> None:
        """Apply the next step. The mappings contain the values from before that step, keyed by request id."""
        held = {request_id: list(blocks) for request_id, blocks in tables.items()}
        reach = dict(computed)
        self.taken, self.freed = [block for share in record["scheduled"] for block in share["new_blocks"]], []
        for request_id in record["aborted"]:
            self._free(request_id, held, reach)
        for victim, _, num_returned in record["preempted"]:
            held[victim] = [*held.get(victim, []), *self._lost(held.get(victim, []), reach, victim, num_returned)]
            self._free(victim, held, reach)
        in_use = {block for share in record["scheduled"] for block in share["blocks"]}
        self.free_queue = [block for block in self.free_queue if block not in in_use]
        self.cached -= set(record["evicted"])
        for share in record["scheduled"]:
            self._fill(share, num_tokens[share["id"]])
            held[share["id"]], reach[share["id"]] = list(share["blocks"]), share["computed"] + share["n"]
        for request_id in [*record["aborted_before_update"], *(ended for ended, *_ in record["finished"])]:
            self._free(request_id, held, reach)
        self.free_queue = list(record.get("detail", {}).get("free_queue", self.free_queue))
        self.cached = set(record.get("detail", {}).get("cached", self.cached))

    def _fill(self, share: ScheduledRecord, num_tokens: int) -> None:
        if self.prefix_caching:
            end = min(share["computed"] + share["n"], num_tokens)
            first = 0 if share["kind"] == "running" else share["computed"]  # accepted drafts have filled some slots too
            self.cached.update(share["blocks"][first // self.block_size : end // self.block_size])

    def _free(self, request_id: str, held: dict[str, list[int]], reach: Mapping[str, int]) -> None:
        table = held.pop(request_id, [])
        still_held = {block for blocks in held.values() for block in blocks}
        self.cached -= set(table[reach.get(request_id, 0) // self.block_size :]) - still_held
        given_back = [block for block in reversed(table) if block not in still_held]
        self.free_queue += given_back
        if table:
            self.freed.append((request_id, given_back))

    def _lost(self, table: Sequence[int], reach: Mapping[str, int], victim: str, num_returned: int) -> Iterable[int]:
        """Take from the front of the queue the blocks that a victim got in this step, which no record lists."""
        needed = cdiv(reach.get(victim, 0) + num_returned, self.block_size) if num_returned else 0
        known = set(self.taken)
        lost = [block for block in self.free_queue if block not in known][: max(0, needed - len(table))]
        self.free_queue = [block for block in self.free_queue if block not in lost]
        return lost
