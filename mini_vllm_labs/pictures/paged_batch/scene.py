"""Collects the picture's data: each row's request, the tokens in each slot, and the slots that queries read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.pictures.paged_batch.flat_step import (
    FlatStep,
    RowFunctions,
    WrongEntry,
    by_functions,
    by_rules,
    faults,
    slot,
)
from mini_vllm_labs.runs.palette import label
from mini_vllm_labs.runs.traces.run_state import is_short_name


@dataclass(frozen=True)
class Query:
    """One token of the row.

    `reads` contains the slots for positions 0 to the token's own, with -1 where the position's block is missing from
    the table. `strangers` contains the slots in `reads` that hold no token of the query's request.
    """

    row: int
    number: int
    position: int
    writes: int | None
    reads: Sequence[int]
    strangers: Sequence[int]
    needs_logits: bool


@dataclass(frozen=True)
class BatchScene:
    """A batch, its arrays as returned by some functions, and the places where the arrays break the rules."""

    batch: Sequence[ScheduledRequest]
    block_size: int
    num_blocks: int
    step: FlatStep
    rules: FlatStep
    faults: Sequence[WrongEntry] = field(default=())

    @classmethod
    def of(cls, batch: Sequence[ScheduledRequest], block_size: int, functions: RowFunctions | None) -> "BatchScene":
        """Return the scene. Raises `ValueError` for a batch that cannot be drawn."""
        require_sound(batch, block_size)
        num_blocks = max(block for row in batch for block in row.block_ids) + 1
        rules = by_rules(batch, block_size)
        step = by_functions(batch, block_size, functions) if functions is not None else rules
        return cls(batch, block_size, num_blocks, step, rules, faults(step, rules))

    def name(self, number: int) -> str:
        """Return a request's label: its id if that is short, otherwise its letter."""
        request_id = self.batch[number].request.request_id
        return request_id if is_short_name(request_id) else label(number)

    @property
    def num_rows(self) -> int:
        return len(self.rules.positions)

    @cached_property
    def owners(self) -> Sequence[int]:
        """The number of the request that each row belongs to."""
        return [number for number, row in enumerate(self.batch) for _ in range(row.num_scheduled_tokens)]

    @cached_property
    def seq_lens(self) -> Sequence[int]:
        """The number of tokens that each request will have in the cache after this step."""
        return [row.num_computed_tokens + row.num_scheduled_tokens for row in self.batch]

    @cached_property
    def held(self) -> dict[int, list[tuple[int, int]]]:
        """The tokens in each slot when attention begins, as (request, position); earlier tokens come before this
        step's."""
        found: dict[int, list[tuple[int, int]]] = {}
        for number, row in enumerate(self.batch):
            for position in range(row.num_computed_tokens):
                found.setdefault(slot(row.block_ids, position, self.block_size), []).append((number, position))
        for index, (number, position) in enumerate(zip(self.owners, self.rules.positions, strict=True)):
            if index < len(self.step.slot_mapping):
                found.setdefault(self.step.slot_mapping[index], []).append((number, position))
        return found

    def query(self, row: int) -> Query:
        """Return the slots that a token of the row writes and reads, according to the step's tables."""
        number, position = self.owners[row], self.rules.positions[row]
        tables = self.step.block_tables
        table = tables[number] if number < len(tables) else []
        reads = [slot(table, place, self.block_size) for place in range(position + 1)]
        return Query(
            row=row,
            number=number,
            position=position,
            writes=self.step.slot_mapping[row] if row < len(self.step.slot_mapping) else None,
            reads=reads,
            strangers=[where for place, where in enumerate(reads) if not self._has_token(number, place, where)],
            needs_logits=row in self.step.logits_rows,
        )

    def _has_token(self, number: int, position: int, where: int) -> bool:
        """Return whether a slot contains a request's token or an equal token: equal prefixes may share a block."""
        held = self.held.get(where, [])
        if (number, position) not in held:
            return False
        last_number, last = held[-1]
        return last == position and self._token(last_number, last) == self._token(number, position)

    def _token(self, number: int, position: int) -> int:
        return self.batch[number].request.all_token_ids[position]


def require_sound(batch: Sequence[ScheduledRequest], block_size: int) -> None:
    """Raise `ValueError` unless every request computes existing tokens in blocks that it holds."""
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}, but a block holds at least 1 token")
    if not batch:
        raise ValueError("batch is empty, but a step needs at least one request")
    for row in batch:
        name, end = row.request.request_id, row.num_computed_tokens + row.num_scheduled_tokens
        if row.num_scheduled_tokens < 1:
            raise ValueError(
                f"{name} is scheduled for {row.num_scheduled_tokens} tokens, but it must be scheduled for at least 1"
            )
        if end > len(row.request.all_token_ids):
            raise ValueError(f"{name} computes up to token {end}, but has only {len(row.request.all_token_ids)} tokens")
        if end > len(row.block_ids) * block_size:
            raise ValueError(f"{name} needs {end} slots, but its {len(row.block_ids)} blocks have fewer slots")
