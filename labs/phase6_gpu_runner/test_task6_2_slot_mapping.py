"""Graded tests of task 6.2."""

import random
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from course.labtest.phase6.batches import (
    LivingRows,
    check_answers_apart,
    check_on,
    naive_flat_batch,
    random_rows,
    row_of,
)
from course.labtest.whole_numbers import whole_numbers
from mini_vllm.core.step import ScheduledRequest

PAST_THE_TABLE = (
    "Hint: a share's positions begin at the `num_computed_tokens` of the ScheduledRequest. At which one does yours "
    "begin, at which does it end, and which block of the table is that?"
)


def check_slots(phase6: ModuleType, batch: Sequence[ScheduledRequest], block_size: int, expected: list[int]) -> None:
    def slots(given: Sequence[ScheduledRequest]) -> list[int]:
        try:
            return whole_numbers(phase6.compute_slot_mapping(given, block_size), "compute_slot_mapping")
        except IndexError as error:
            error.add_note(PAST_THE_TABLE)
            raise

    check_on(
        batch,
        slots,
        expected,
        block_size,
        function="compute_slot_mapping",
        rule="The token at position p goes to place p % block_size of block number p // block_size of its table.",
        hint=lambda yours: (
            "which block holds the first position that differs, at which place, and which slot is that?"
            if len(yours) == len(expected)
            else "how many tokens does the step compute, and has each of them one slot?"
        ),
    )


def check_tables(
    phase6: ModuleType, batch: Sequence[ScheduledRequest], block_size: int, expected: list[list[int]]
) -> None:
    def named(tables: list[list[int]]) -> dict[str, object]:
        names = [f"table of {row.request.request_id}" for row in batch]
        return {"number of tables": len(tables), **dict(zip(names, tables, strict=False))}

    def padded(given: Sequence[ScheduledRequest]) -> dict[str, object]:
        tables = phase6.pad_block_tables(given, block_size)
        return named([whole_numbers(table, "pad_block_tables") for table in tables])

    def asked(yours: dict[str, Any]) -> str:
        lengths = [
            [len(table) for table in one.values() if isinstance(table, list)] for one in (yours, named(expected))
        ]
        if yours["number of tables"] != len(expected):
            return "which requests of the step have a table in your list?"
        if lengths[0] == lengths[1]:
            return "the lengths are right: which blocks are cut off, which number fills a table, and at which end?"
        return "how many blocks do num_computed + n tokens need, and which table needs the most?"

    check_on(
        batch,
        padded,
        named(expected),
        block_size,
        function="pad_block_tables",
        rule="Each table is cut to the blocks that hold tokens after this step, then padded with block 0.",
        hint=asked,
    )


def test_slots_follow_the_block_table(phase6: ModuleType) -> None:
    check_slots(phase6, [row_of("A", 0, 6, [7, 2])], 4, [28, 29, 30, 31, 8, 9])
    check_slots(phase6, [row_of("A", 3, 4, [7, 2, 9], num_more=3)], 4, [31, 8, 9, 10])
    check_slots(phase6, [row_of("A", 8, 1, [7, 2, 9, 4])], 4, [36])
    check_slots(phase6, [row_of("A", 1, 3, [7, 2, 9, 4])], 1, [2, 9, 4])
    check_slots(phase6, [row_of("A", 2, 5, [7, 2, 9])], 3, [23, 6, 7, 8, 27])
    check_slots(phase6, [row_of("B", 4, 2, [3, 1]), row_of("A", 0, 2, [5])], 4, [4, 5, 20, 21])


def test_tables_are_cut_then_padded(phase6: ModuleType) -> None:
    long, short = row_of("A", 8, 1, [7, 2, 9]), row_of("B", 0, 3, [4])
    check_tables(phase6, [long, short], 4, [[7, 2, 9], [4, 0, 0]])
    first_chunk = row_of("C", 0, 4, [5, 1, 6], num_more=8)
    check_tables(phase6, [first_chunk, short], 4, [[5], [4]])
    check_tables(phase6, [short, row_of("D", 4, 1, [8, 3, 10])], 4, [[4, 0], [8, 3]])
    check_tables(phase6, [row_of("E", 2, 2, [8, 3, 10, 6])], 1, [[8, 3, 10, 6]])


@pytest.mark.parametrize("function", ["compute_slot_mapping", "pad_block_tables"])
def test_the_answer_for_a_step_is_its_own(phase6: ModuleType, function: str) -> None:
    check_answers_apart(lambda batch: getattr(phase6, function)(batch, 4), function)


@pytest.mark.parametrize(("seed", "block_size"), [(0, 1), (1, 2), (2, 4), (3, 3), (4, 16), (5, 32), (6, 5)])
def test_random_batches_in_blocks(phase6: ModuleType, seed: int, block_size: int) -> None:
    rng, living = random.Random(seed), LivingRows(seed)
    for _ in range(20):
        batch = living.now(random_rows(rng, block_size))
        flat = naive_flat_batch(batch, block_size)
        check_slots(phase6, batch, block_size, flat.slot_mapping.tolist())
        check_tables(phase6, batch, block_size, flat.block_tables.tolist())


def test_long_contexts_in_large_pools(phase6: ModuleType) -> None:
    chunk = row_of("A", 250, 1000, [70_000 + 3 * index for index in range(90)], num_more=40, samples=False)
    batch = [chunk, row_of("B", 515, 1, list(range(40_000, 39_967, -1))), row_of("C", 15, 2, [5, 2**28 + 7, 6])]
    batch += [row_of(f"R{number}", number, 1, list(range(20 * number, 20 * number + 8))) for number in range(10, 100)]
    flat = naive_flat_batch(batch, 16)
    check_slots(phase6, batch, 16, flat.slot_mapping.tolist())
    check_tables(phase6, batch, 16, flat.block_tables.tolist())
