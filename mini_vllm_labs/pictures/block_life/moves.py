"""Reads a step's moves between the free queue and the block tables from the step's record."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mini_vllm_labs.pictures.time_machine.queues import record_of
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState

ByRequest = Sequence[tuple[str, Sequence[int]]]  # requests, each with some of its blocks


@dataclass(frozen=True)
class Moves:
    """The moves of one step, each with the request that caused it.

    `before` and `after` are the free queue before and after the step, head first. `found` are the blocks that an
    admitted request hit. Victims freed the `lost` blocks while the step was planned, so these blocks can be allocated
    immediately. `given_back` are the blocks that were freed after the step. `in_use` contains each block's holders
    while the step is computed. `parted` are the blocks that were shared and now have one holder. After the step,
    `holders` maps a block to its requests, and `kept` maps a free block to the request whose content it keeps.
    """

    step: int
    before: Sequence[int]
    after: Sequence[int]
    handed_out: ByRequest
    found: ByRequest
    lost: ByRequest
    given_back: ByRequest
    parted: Sequence[int]
    forgotten: Sequence[int]
    in_use: dict[int, list[str]]
    holders: dict[int, list[str]]
    kept: dict[int, str]

    @property
    def while_planned(self) -> list[int]:
        """The free queue at allocation time: the previous step's queue, followed by the victims' blocks."""
        return [*self.before, *(block for _, blocks in self.lost for block in blocks)]

    @property
    def taker(self) -> dict[int, str]:
        """The last request to take each block that was allocated or found in this step."""
        return {block: taker for taker, blocks in (*self.found, *self.handed_out) for block in blocks}

    @property
    def shared(self) -> set[int]:
        return {block for block, holders in self.holders.items() if len(holders) > 1}

    @property
    def empty(self) -> list[int]:
        """The free blocks that have no content in the prefix cache."""
        return [block for block in self.after if block not in self.kept]

    @property
    def found_free(self) -> list[int]:
        """The found blocks that had no holder; the hit removes them from any position in the free queue."""
        waiting = set(self.while_planned)
        return [block for _, blocks in self.found for block in blocks if block in waiting]

    @property
    def all_given_back(self) -> list[int]:
        """The blocks added at the tail, in order."""
        return [block for _, blocks in (*self.lost, *self.given_back) for block in blocks]


def moves_of(state: RunState, before: Sequence[int], shared_before: set[int]) -> Moves:
    """Return the moves of the state's current step.

    `before` is the free queue after the previous step, and `shared_before` are the blocks that were shared then.
    """
    record = record_of(state)
    size, after = state.info.block_size, list(state.pool.free_queue)
    holders: dict[int, list[str]] = {}
    for request_id, table in state.tables_after_update().items():
        for block in table:
            holders.setdefault(block, []).append(request_id)
    shares = record["scheduled"]
    freed = [(request_id, blocks) for request_id, blocks in state.pool.freed if blocks]
    early = {victim for victim, *_ in record["preempted"]} | set(record["aborted"])
    was_shared = shared_before | {block for block, num in state.ref_counts().items() if num > 1}
    kept = {block: state.remembered[block] for block in after if block in state.cached() & state.remembered.keys()}
    return Moves(
        step=record["step"],
        before=list(before),
        after=after,
        handed_out=[(share["id"], share["new_blocks"]) for share in shares if share["new_blocks"]],
        found=[(share["id"], share["blocks"][: share.get("hit", 0) // size]) for share in shares if share.get("hit")],
        lost=[(request_id, blocks) for request_id, blocks in freed if request_id in early],
        given_back=[(request_id, blocks) for request_id, blocks in freed if request_id not in early],
        parted=[block for block in sorted(was_shared) if len(holders.get(block, [])) == 1],
        forgotten=list(record["evicted"]),
        in_use=state.holders(),
        holders=holders,
        kept=kept,
    )


def all_moves(info: RunInfo, states: Iterable[RunState]) -> list[Moves]:
    found: list[Moves] = []
    queue, shared = list(range(1, info.num_blocks + 1)), set[int]()
    for state in states:
        found.append(moves_of(state, queue, shared))
        queue, shared = list(found[-1].after), found[-1].shared
    return found
