"""Graded tests of task 6.1."""

import random
from collections.abc import Sequence
from types import ModuleType

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

ASKED = {  # by the first list that differs
    "input_ids": "which of `request.all_token_ids` does this step compute, and in which order do the requests come?",
    "positions": "from which position of the request to which are the tokens of this step?",
    "query_start_loc": "at which place of the row does each request begin, and at which does the last one end?",
}


def check_flat(
    phase6: ModuleType, batch: Sequence[ScheduledRequest], input_ids: list[int], positions: list[int], starts: list[int]
) -> None:
    names = "input_ids", "positions", "query_start_loc"
    right = dict(zip(names, (input_ids, positions, starts), strict=True))

    def flattened(given: Sequence[ScheduledRequest]) -> dict[str, list[int]]:
        parts = [whole_numbers(numbers, "flatten_tokens") for numbers in phase6.flatten_tokens(given)]
        return dict(zip(names, parts, strict=True))

    check_on(
        batch,
        flattened,
        right,
        function="flatten_tokens",
        rule="The row has, request by request, the tokens of this step, each with its position in its request.",
        hint=lambda yours: next(asked for name, asked in ASKED.items() if yours[name] != right[name]),
    )


def check_logits_rows(phase6: ModuleType, batch: Sequence[ScheduledRequest], expected: list[int]) -> None:
    check_on(
        batch,
        lambda given: whole_numbers(phase6.select_logits_rows(given), "select_logits_rows"),
        expected,
        function="select_logits_rows",
        rule="Logits are taken from the last token of each request that needs a token, counted in the step's row.",
        hint=lambda yours: (
            "which requests of the step need a token?"
            if len(yours) != len(expected)
            else "how many tokens has the row up to the end of a request, counting requests that need no token, too?"
        ),
    )


def test_flatten_one_request(phase6: ModuleType) -> None:
    check_flat(phase6, [row_of("A", 0, 4, [5])], [100, 101, 102, 103], [0, 1, 2, 3], [0, 4])
    second_chunk = row_of("A", 3, 4, [5, 6], num_more=2, samples=False)
    check_flat(phase6, [second_chunk], [103, 104, 105, 106], [3, 4, 5, 6], [0, 4])
    decode = row_of("A", 6, 1, [5, 6], num_outputs=3)  # 4 prompt tokens, 3 generated ones
    check_flat(phase6, [decode], [152], [6], [0, 1])
    resumed = row_of("A", 2, 5, [5, 6], num_outputs=3)
    check_flat(phase6, [resumed], [102, 103, 150, 151, 152], [2, 3, 4, 5, 6], [0, 5])


def test_flatten_keeps_the_requests_apart_and_in_order(phase6: ModuleType) -> None:
    batch = [row_of("B", 3, 2, [5, 6]), row_of("A", 7, 1, [1, 2], num_outputs=2), row_of("C", 0, 3, [4])]
    check_flat(phase6, batch, [203, 204, 151, 300, 301, 302], [3, 4, 7, 0, 1, 2], [0, 2, 3, 6])


def test_logits_rows_are_those_of_requests_that_need_a_token(phase6: ModuleType) -> None:
    chunk = row_of("A", 4, 4, [1, 2], num_more=9, samples=False)
    decode, prompt = row_of("B", 6, 1, [3, 4]), row_of("C", 0, 3, [5])
    check_logits_rows(phase6, [chunk, decode, prompt], [4, 7])
    check_logits_rows(phase6, [decode, chunk, prompt], [0, 7])
    check_logits_rows(phase6, [prompt, decode, chunk], [2, 3])
    check_logits_rows(phase6, [chunk], [])


@pytest.mark.parametrize("function", ["flatten_tokens", "select_logits_rows"])
def test_the_answer_for_a_step_is_its_own(phase6: ModuleType, function: str) -> None:
    check_answers_apart(lambda batch: getattr(phase6, function)(batch), function)


def test_long_chunks_and_many_requests(phase6: ModuleType) -> None:
    chunk = row_of("A", 300, 2000, list(range(1, 40)), num_more=9, samples=False)
    batch = [chunk, *(row_of(f"R{number}", 400, 1, [7]) for number in range(2, 102)), row_of("U", 0, 70, [9])]
    flat = naive_flat_batch(batch, block_size=4096)
    check_flat(phase6, batch, flat.input_ids.tolist(), flat.positions.tolist(), flat.query_start_loc.tolist())
    check_logits_rows(phase6, batch, [*range(2000, 2100), 2169])


@pytest.mark.parametrize("seed", range(5))
def test_random_batches_flat(phase6: ModuleType, seed: int) -> None:
    rng, living = random.Random(seed), LivingRows(seed)
    for _ in range(30):
        batch = living.now(random_rows(rng, block_size=4))
        flat = naive_flat_batch(batch, block_size=4)
        check_flat(phase6, batch, flat.input_ids.tolist(), flat.positions.tolist(), flat.query_start_loc.tolist())
        check_logits_rows(phase6, batch, flat.logits_indices.tolist())
