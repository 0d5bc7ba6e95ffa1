"""Graded tests of task 6.1."""

import random
from collections.abc import Sequence
from types import ModuleType

import pytest

from course.labtest.phase6.batches import check_on, naive_flat_batch, random_rows, row_of
from course.labtest.whole_numbers import whole_numbers
from mini_vllm.core.step import ScheduledRequest


def check_flat(
    phase6: ModuleType, batch: Sequence[ScheduledRequest], input_ids: list[int], positions: list[int], starts: list[int]
) -> None:
    names = "input_ids", "positions", "query_start_loc"

    def flattened() -> dict[str, list[int]]:
        parts = [whole_numbers(numbers, "flatten_tokens") for numbers in phase6.flatten_tokens(batch)]
        return dict(zip(names, parts, strict=True))

    check_on(
        batch,
        flattened,
        dict(zip(names, (input_ids, positions, starts), strict=True)),
        function="flatten_tokens",
        rule="The row has, request by request, the tokens of this step, each with its position in its request.",
        hint="which of `request.all_token_ids` does this step compute, at which positions of the request, and at which "
        "place of the row does each request begin?",
    )


def check_logits_rows(phase6: ModuleType, batch: Sequence[ScheduledRequest], expected: list[int]) -> None:
    check_on(
        batch,
        lambda: whole_numbers(phase6.select_logits_rows(batch), "select_logits_rows"),
        expected,
        function="select_logits_rows",
        rule="Logits are taken from the last token of each request that needs a token, counted in the step's row.",
        hint="how many tokens of the row are before and in this request, including those of requests that need none?",
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


def test_long_chunks_and_many_requests(phase6: ModuleType) -> None:
    chunk = row_of("A", 300, 200, list(range(1, 40)), num_more=9, samples=False)
    batch = [chunk, *(row_of(name, 400, 1, [7]) for name in "BCDEFGHIJKLMNOPQRST"), row_of("U", 0, 70, [9])]
    flat = naive_flat_batch(batch, block_size=512)
    check_flat(phase6, batch, flat.input_ids.tolist(), flat.positions.tolist(), flat.query_start_loc.tolist())
    check_logits_rows(phase6, batch, [*range(200, 219), 288])


@pytest.mark.parametrize("seed", range(5))
def test_random_batches_flat(phase6: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        batch = random_rows(rng, block_size=4)
        flat = naive_flat_batch(batch, block_size=4)
        check_flat(phase6, batch, flat.input_ids.tolist(), flat.positions.tolist(), flat.query_start_loc.tolist())
        check_logits_rows(phase6, batch, flat.logits_indices.tolist())
