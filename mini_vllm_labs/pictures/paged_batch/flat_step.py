"""Compares a step's arrays from phase 6's functions with the arrays that the handout's rules require."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Protocol

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.step import ScheduledRequest


class RowFunctions(Protocol):
    """The phase-6 functions that return lists; they come from a starter, a solution, or `RunnerSteps`."""

    def flatten_tokens(self, batch: Sequence[ScheduledRequest], /) -> tuple[list[int], list[int], list[int]]: ...
    def compute_slot_mapping(self, batch: Sequence[ScheduledRequest], block_size: int, /) -> list[int]: ...
    def pad_block_tables(self, batch: Sequence[ScheduledRequest], block_size: int, /) -> list[list[int]]: ...
    def select_logits_rows(self, batch: Sequence[ScheduledRequest], /) -> list[int]: ...


@dataclass(frozen=True)
class FlatStep:
    """A step's T tokens from R requests, in one row.

    `input_ids`, `positions`, `slot_mapping` [T]; `query_start_loc` [R + 1]; `block_tables` [R, longest];
    `logits_rows` are the rows that need logits.
    """

    input_ids: Sequence[int]
    positions: Sequence[int]
    slot_mapping: Sequence[int]
    query_start_loc: Sequence[int]
    block_tables: Sequence[Sequence[int]]
    logits_rows: Sequence[int]


def by_rules(batch: Sequence[ScheduledRequest], block_size: int) -> FlatStep:
    """Return the arrays that follow from rules 1 to 4 of the handout."""
    spans = [range(row.num_computed_tokens, row.num_computed_tokens + row.num_scheduled_tokens) for row in batch]
    starts = [sum(map(len, spans[:number])) for number in range(len(batch) + 1)]
    used = [row.block_ids[: cdiv(span.stop, block_size)] for row, span in zip(batch, spans, strict=True)]
    longest = max(map(len, used))
    return FlatStep(
        input_ids=[row.request.all_token_ids[p] for row, span in zip(batch, spans, strict=True) for p in span],
        positions=[position for span in spans for position in span],
        slot_mapping=[slot(row.block_ids, p, block_size) for row, span in zip(batch, spans, strict=True) for p in span],
        query_start_loc=starts,
        block_tables=[[*table, *[0] * (longest - len(table))] for table in used],
        logits_rows=[end - 1 for row, end in zip(batch, starts[1:], strict=True) if row.needs_token],
    )


def slot(table: Sequence[int], position: int, block_size: int) -> int:
    """Return the slot of a token, or -1 if the table is too short."""
    place = position // block_size
    return table[place] * block_size + position % block_size if place < len(table) else -1


def by_functions(batch: Sequence[ScheduledRequest], block_size: int, functions: RowFunctions) -> FlatStep:
    """Return the arrays computed by the given phase-6 functions, without catching their exceptions.

    Raises `ValueError` for a function that does not return lists.
    """
    flat = functions.flatten_tokens(batch)
    if not isinstance(flat, tuple) or len(flat) != 3:
        raise ValueError(f"flatten_tokens returned {flat!r:.60}, but it must return three lists")
    input_ids, positions, query_start_loc = (as_list("flatten_tokens", part) for part in flat)
    tables = as_list("pad_block_tables", functions.pad_block_tables(batch, block_size))
    return FlatStep(
        input_ids,
        positions,
        as_list("compute_slot_mapping", functions.compute_slot_mapping(batch, block_size)),
        query_start_loc,
        [as_list("pad_block_tables", table) for table in tables],
        as_list("select_logits_rows", functions.select_logits_rows(batch)),
    )


def as_list(name: str, found: object) -> list[Any]:
    """Return the list that function `name` returned. Raises `ValueError` if it returned another type."""
    if not isinstance(found, list):
        raise ValueError(f"{name} returned {found!r:.60}, but it must return a list")
    return found


@dataclass(frozen=True)
class WrongEntry:
    """An entry that breaks the rules; `expected` is None if the entry is surplus, and `got` if it is missing."""

    name: str
    place: tuple[int, ...]
    got: int | None
    expected: int | None

    @property
    def text(self) -> str:
        where = self.name + "".join(f"[{index}]" for index in self.place)
        if self.got is None:
            return f"{where} is missing, the rules give {self.expected}."
        return f"{where} is {self.got}, the rules give {'none' if self.expected is None else self.expected}."


def faults(got: FlatStep, expected: FlatStep) -> list[WrongEntry]:
    names = ("input_ids", "positions", "slot_mapping", "query_start_loc", "logits_rows")
    lists: list[tuple[str, tuple[int, ...], Sequence[int], Sequence[int]]]
    lists = [(name, (), getattr(got, name), getattr(expected, name)) for name in names]
    tables = zip_longest(got.block_tables, expected.block_tables, fillvalue=())
    lists += [("block_tables", (number,), one, other) for number, (one, other) in enumerate(tables)]
    return [
        WrongEntry(name, (*place, index), one, other)
        for name, place, ours, theirs in lists
        for index, (one, other) in enumerate(zip_longest(ours, theirs))
        if one != other
    ]


def at(numbers: Sequence[int], index: int) -> int | None:
    return numbers[index] if index < len(numbers) else None
