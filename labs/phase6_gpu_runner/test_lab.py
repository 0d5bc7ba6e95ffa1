"""Graded tests of phase 6."""

import math
import random
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest
import torch

from course.labtest.phase6.reference_attention import (
    AttentionSteps,
    as_the_model_gives_it,
    check_averages,
    describe_rows,
    expect_attention,
    naive_flat_batch,
    random_rows,
    row_of,
)
from course.labtest.phase6.reference_sampler import naive_sample, random_row
from course.labtest.phase6.symptoms import symptom_of_flat
from course.labtest.support import as_ints, expect_equal, expect_rows
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.steps import RunnerSteps
from mini_vllm.sampling_params import SamplingParams


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors this small are computed ten times faster by one thread than by several that wait for each other."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


# Task 6.1: flatten_tokens and select_logits_rows


def check_flat(
    phase6: ModuleType, batch: Sequence[ScheduledRequest], input_ids: list[int], positions: list[int], starts: list[int]
) -> None:
    yours = [as_ints(numbers, "flatten_tokens") for numbers in phase6.flatten_tokens(batch)]
    better_hint = symptom_of_flat(batch, yours, (input_ids, positions, starts))
    expect_rows(
        {
            "input_ids": (yours[0], input_ids),
            "positions": (yours[1], positions),
            "query_start_loc": (yours[2], starts),
        },
        rule="The row has request by request the tokens of this step, each with its position in its request.",
        situation=describe_rows(batch),
        hint=better_hint
        or "a position is a fact about the token in its sequence: does it start again at 0 in a new chunk?",
    )


def check_logits_rows(phase6: ModuleType, batch: Sequence[ScheduledRequest], expected: list[int]) -> None:
    expect_equal(
        as_ints(phase6.select_logits_rows(batch), "select_logits_rows"),
        expected,
        rule="Logits are taken behind the last token of each request that samples, counted in the step's row.",
        situation=describe_rows(batch),
        hint="how many tokens of the row stand before and in this request, the ones that do not sample included?",
    )


@pytest.mark.task6_1
def test_flatten_one_request(phase6: ModuleType) -> None:
    check_flat(phase6, [row_of("A", 0, 4, [5])], [100, 101, 102, 103], [0, 1, 2, 3], [0, 4])
    second_chunk = row_of("A", 3, 4, [5, 6], num_more=2, samples=False)
    check_flat(phase6, [second_chunk], [103, 104, 105, 106], [3, 4, 5, 6], [0, 4])
    decode = row_of("A", 6, 1, [5, 6], num_outputs=3)  # 4 prompt tokens, 3 generated ones
    check_flat(phase6, [decode], [152], [6], [0, 1])
    resumed = row_of("A", 2, 5, [5, 6], num_outputs=3)
    check_flat(phase6, [resumed], [102, 103, 150, 151, 152], [2, 3, 4, 5, 6], [0, 5])


@pytest.mark.task6_1
def test_flatten_keeps_the_requests_apart_and_in_order(phase6: ModuleType) -> None:
    batch = [row_of("B", 3, 2, [5, 6]), row_of("A", 7, 1, [1, 2], num_outputs=2), row_of("C", 0, 3, [4])]
    check_flat(phase6, batch, [203, 204, 151, 300, 301, 302], [3, 4, 7, 0, 1, 2], [0, 2, 3, 6])


@pytest.mark.task6_1
def test_logits_rows_are_those_of_requests_that_sample(phase6: ModuleType) -> None:
    chunk = row_of("A", 4, 4, [1, 2], num_more=9, samples=False)
    decode, prompt = row_of("B", 6, 1, [3, 4]), row_of("C", 0, 3, [5])
    check_logits_rows(phase6, [chunk, decode, prompt], [4, 7])
    check_logits_rows(phase6, [decode, chunk, prompt], [0, 7])
    check_logits_rows(phase6, [prompt, decode, chunk], [2, 3])
    check_logits_rows(phase6, [chunk], [])


@pytest.mark.task6_1
@pytest.mark.parametrize("seed", range(5))
def test_random_batches_flat(phase6: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        batch = random_rows(rng, block_size=4)
        flat = naive_flat_batch(batch, block_size=4)
        check_flat(phase6, batch, flat.input_ids.tolist(), flat.positions.tolist(), flat.query_start_loc.tolist())
        check_logits_rows(phase6, batch, flat.logits_indices.tolist())


# Task 6.2: compute_slot_mapping and pad_block_tables


def check_slots(phase6: ModuleType, batch: Sequence[ScheduledRequest], block_size: int, expected: list[int]) -> None:
    expect_equal(
        as_ints(phase6.compute_slot_mapping(batch, block_size), "compute_slot_mapping"),
        expected,
        rule="The token at position p goes to place p % block_size of block number p // block_size of its table.",
        situation=describe_rows(batch, block_size),
        hint="a slot is a fact about memory: which block of the table holds this position, and where in it?",
    )


def check_tables(
    phase6: ModuleType, batch: Sequence[ScheduledRequest], block_size: int, expected: list[list[int]]
) -> None:
    given = [list(row.block_ids) for row in batch]
    yours = [as_ints(table, "pad_block_tables") for table in phase6.pad_block_tables(batch, block_size)]
    situation = describe_rows(batch, block_size)
    expect_equal(
        yours,
        expected,
        rule="Each table is cut to the blocks that hold tokens after this step, then filled with block 0.",
        situation=situation,
        hint="how many blocks do num_computed + n tokens need, and which table needs the most?",
    )
    expect_equal(
        [list(row.block_ids) for row in batch],
        given,
        rule="Padding leaves the requests' own block tables as they are.",
        situation=f"block_ids of the batch after the call\n{situation}",
        hint="does `+=` on a list make a new list?",
    )


@pytest.mark.task6_2
def test_slots_follow_the_block_table(phase6: ModuleType) -> None:
    check_slots(phase6, [row_of("A", 0, 6, [7, 2])], 4, [28, 29, 30, 31, 8, 9])
    check_slots(phase6, [row_of("A", 3, 4, [7, 2, 9], num_more=3)], 4, [31, 8, 9, 10])
    check_slots(phase6, [row_of("A", 8, 1, [7, 2, 9, 4])], 4, [36])
    check_slots(phase6, [row_of("A", 1, 3, [7, 2, 9, 4])], 1, [2, 9, 4])
    check_slots(phase6, [row_of("A", 2, 5, [7, 2, 9])], 3, [23, 6, 7, 8, 27])
    check_slots(phase6, [row_of("B", 4, 2, [3, 1]), row_of("A", 0, 2, [5])], 4, [4, 5, 20, 21])


@pytest.mark.task6_2
def test_tables_are_cut_then_padded(phase6: ModuleType) -> None:
    long, short = row_of("A", 8, 1, [7, 2, 9]), row_of("B", 0, 3, [4])
    check_tables(phase6, [long, short], 4, [[7, 2, 9], [4, 0, 0]])
    first_chunk = row_of("C", 0, 4, [5, 1, 6], num_more=8)
    check_tables(phase6, [first_chunk, short], 4, [[5], [4]])
    check_tables(phase6, [short, row_of("D", 4, 1, [8, 3, 10])], 4, [[4, 0], [8, 3]])
    check_tables(phase6, [row_of("E", 2, 2, [8, 3, 10, 6])], 1, [[8, 3, 10, 6]])


@pytest.mark.task6_2
@pytest.mark.parametrize(("seed", "block_size"), [(0, 1), (1, 2), (2, 4), (3, 3), (4, 16)])
def test_random_batches_in_blocks(phase6: ModuleType, seed: int, block_size: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        batch = random_rows(rng, block_size)
        flat = naive_flat_batch(batch, block_size)
        check_slots(phase6, batch, block_size, flat.slot_mapping.tolist())
        check_tables(phase6, batch, block_size, flat.block_tables.tolist())


# Task 6.3: write_kv


@pytest.mark.task6_3
@pytest.mark.parametrize(("block_size", "num_kv_heads"), [(4, 1), (4, 3), (1, 2), (16, 2)])
@pytest.mark.parametrize("slots", [[5], [9, 2, 14, 3, 8], [15, 0, 7], [4, 6, 5, 7]], ids=str)
def test_write_fills_the_given_slots_in_place(
    phase6: ModuleType, block_size: int, num_kv_heads: int, slots: list[int]
) -> None:
    generator = torch.Generator().manual_seed(1)
    shape = (16 // block_size, block_size, num_kv_heads, 2)
    caches = [torch.randn(shape, generator=generator) for _ in range(2)]
    new = [torch.randn((len(slots), num_kv_heads, 2), generator=generator) for _ in range(2)]
    expected = [cache.clone() for cache in caches]
    for token, slot in enumerate(slots):
        for cache, numbers in zip(expected, new, strict=True):
            cache[slot // block_size, slot % block_size] = numbers[token]
    phase6.write_kv(*(as_the_model_gives_it(numbers) for numbers in new), *caches, torch.tensor(slots))
    wrong = [
        [slot for slot in range(16) if not torch.equal(yours.flatten(0, 1)[slot], right.flatten(0, 1)[slot])]
        for yours, right in zip(caches, expected, strict=True)
    ]
    expect_rows(
        {"slots with wrong K": (wrong[0], []), "slots with wrong V": (wrong[1], [])},
        rule="Token t goes to slot_mapping[t] of the caches that were handed in; no other slot changes.",
        situation=f"caches of {list(shape)}, slot_mapping {slots}",
        hint="does your code write into the cache itself, or into a copy of it?"
        if wrong[0] == wrong[1]
        else "one of the two caches is right: what do you do differently for the other?",
    )


# Task 6.4: paged_attention


FIRST_IS_1 = "1 for the first token of the request, 2 for the second, and so on"


def number_of(name: str) -> int:
    return ord(name) - ord("A") + 1


@pytest.mark.task6_4
@pytest.mark.parametrize("num_computed", [0, 3, 4, 5, 12])
def test_a_decode_sees_all_tokens_of_its_request(phase6: ModuleType, num_computed: int) -> None:
    batch = [row_of("A", num_computed, 1, [7, 2, 9, 4])]
    check_averages(phase6.paged_attention, batch, value_of=lambda _, position, __: position + 1, values_are=FIRST_IS_1)


@pytest.mark.task6_4
@pytest.mark.parametrize(("num_computed", "n"), [(0, 6), (0, 4), (4, 4), (3, 6), (5, 2), (1, 9)])
def test_a_token_of_a_chunk_sees_what_is_before_it(phase6: ModuleType, num_computed: int, n: int) -> None:
    batch = [row_of("A", num_computed, n, [7, 2, 9])]
    check_averages(phase6.paged_attention, batch, value_of=lambda _, position, __: position + 1, values_are=FIRST_IS_1)


@pytest.mark.task6_4
@pytest.mark.parametrize("order", ["ABCD", "DCBA", "CADB"])
def test_requests_of_a_batch_do_not_see_each_other(phase6: ModuleType, order: str) -> None:
    rows = {
        "A": row_of("A", 8, 1, [7, 2, 9]),
        "B": row_of("B", 0, 3, [4], num_more=1),
        "C": row_of("C", 2, 1, [1]),
        "D": row_of("D", 3, 3, [6, 3]),
    }
    batch = [rows[name] for name in order]
    check_averages(
        phase6.paged_attention,
        batch,
        value_of=lambda name, _, __: number_of(name),
        values_are="1 for A, 2 for B, 3 for C, 4 for D",
    )


@pytest.mark.task6_4
@pytest.mark.parametrize(("num_kv_heads", "group"), [(2, 2), (3, 2), (2, 4), (4, 1), (1, 4)])
def test_query_heads_share_kv_heads_in_groups(phase6: ModuleType, num_kv_heads: int, group: int) -> None:
    batch = [row_of("A", 4, 1, [7, 2]), row_of("B", 1, 3, [4]), row_of("C", 2, 1, [1])]
    check_averages(
        phase6.paged_attention,
        batch,
        num_kv_heads=num_kv_heads,
        group=group,
        value_of=lambda name, _, head: 10 * number_of(name) + head,
        values_are="10 for A, 20 for B, 30 for C, each plus the number of the K/V head",
    )


@pytest.mark.task6_4
@pytest.mark.parametrize("scale", [0.25, 1.0])
@pytest.mark.parametrize("n", [1, 2])
def test_scale_multiplies_the_scores(phase6: ModuleType, scale: float, n: int) -> None:
    # Two tokens; q.k is 2 with the first and 0 with the second, V is 1 in the first and 0 in the second.
    batch = [row_of("A", 2 - n, n, [1])]
    key_cache, value_cache = torch.zeros(3, 4, 1, 2), torch.zeros(3, 4, 1, 2)
    key_cache[1, 0, 0, 0] = value_cache[1, 0, 0, 0] = 1
    query = torch.tensor([[[2.0, 0.0]]] * n)
    share = 1 / (1 + math.exp(-2 * scale))
    expected = torch.tensor([[[1.0, 0.0]], [[share, 0.0]]])[-n:]
    yours = phase6.paged_attention(query, key_cache, value_cache, naive_flat_batch(batch, 4), scale)
    situation = f"scale={scale}; q.k is 2 with the first token and 0 with the second; only the first has V = 1"
    hint = "which number multiplies q.k in your code, and which one were you given?"
    expect_attention(yours, expected, situation, batch, 4, lambda *_: hint)


@pytest.mark.task6_4
@pytest.mark.parametrize(("num_kv_heads", "group"), [(1, 1), (2, 1), (1, 2), (2, 2), (1, 4), (2, 4)])
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_random_steps_against_the_naive_attention(
    phase6: ModuleType, block_size: int, num_kv_heads: int, group: int
) -> None:
    for seed in range(3):
        AttentionSteps(seed, block_size, num_kv_heads, group).play(phase6.paged_attention)


@pytest.mark.task6_4
@pytest.mark.parametrize("seed", range(3))
def test_random_steps_through_all_your_parts(phase6: ModuleType, seed: int) -> None:
    parts = RunnerSteps.of(phase6)
    AttentionSteps(seed, 4, num_kv_heads=2, group=2).play(parts.paged_attention, parts)


@pytest.mark.task6_4
@pytest.mark.parametrize("n", [1, 3])
def test_the_answer_has_the_numbers_of_the_query(phase6: ModuleType, n: int) -> None:
    batch = [row_of("A", 5, n, [1, 2]), row_of("B", 2, 1, [3])]
    caches = [torch.zeros(5, 4, 1, 2, dtype=torch.bfloat16) for _ in range(2)]
    query = torch.ones(n + 1, 2, 2, dtype=torch.bfloat16)
    yours = phase6.paged_attention(query, *caches, naive_flat_batch(batch, 4), 0.5)
    expect_equal(
        yours.dtype,
        torch.bfloat16,
        rule="paged_attention returns numbers of the query's dtype: the model goes on with them.",
        situation=f"query and caches in bfloat16\n{describe_rows(batch, 4)}",
        hint="where do your numbers become longer, and where do they become what they were?",
    )


# Task 6.5: sample


def sampled(phase6: ModuleType, rows: Sequence[tuple[Sequence[float], SamplingParams, float]]) -> list[int]:
    logits = torch.tensor([list(row[0]) for row in rows])
    return as_ints(phase6.sample(logits, [row[1] for row in rows], [row[2] for row in rows]), "sample")


def logs(*probabilities: float) -> list[float]:
    return [math.log(probability) for probability in probabilities]


@pytest.mark.task6_5
def test_temperature_zero_takes_the_likeliest(phase6: ModuleType) -> None:
    logits = [[1.0, 3.0, 2.0, -1.0], [-5.0, -7.0, -4.0, -3.5], [8.9990, 9.0, 8.9999, 8.9998]]
    params = [SamplingParams(), SamplingParams(top_k=3), SamplingParams(top_p=0.5)]
    for draw in (0.0, 0.5, 0.999999):
        expect_equal(
            sampled(phase6, [(row, settings, draw) for row, settings in zip(logits, params, strict=True)]),
            [1, 3, 1],
            rule="With temperature 0 the likeliest token comes, whatever the draw and the filters.",
            situation=f"logits {logits}, all draws {draw}",
            hint="what is the limit of dividing by an ever smaller temperature?",
        )
    tied = sampled(phase6, [([1.0, 4.0, 0.0, 4.0], SamplingParams(), 0.7)])
    expect_equal(
        tied[0] in (1, 3),
        True,
        rule="With temperature 0 and a tie, one of the likeliest tokens comes.",
        situation=f"logits [1, 4, 0, 4]; yours chose token {tied[0]}",
        hint="which tokens have the highest logit?",
    )


@pytest.mark.task6_5
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # Token 2 has probability 0.5, token 0 0.3, token 3 0.15, token 1 0.05.
        ({}, [2, 2, 0, 0, 3, 1]),
        ({"top_k": 1}, [2, 2, 2, 2, 2, 2]),
        ({"top_k": 2}, [2, 2, 2, 0, 0, 0]),  # 0.625 and 0.375
        ({"top_k": 3}, [2, 2, 0, 0, 3, 3]),
        ({"top_k": 99}, [2, 2, 0, 0, 3, 1]),
        ({"top_p": 0.001}, [2, 2, 2, 2, 2, 2]),
        ({"top_p": 0.45}, [2, 2, 2, 2, 2, 2]),
        ({"top_p": 0.6}, [2, 2, 2, 0, 0, 0]),  # 0.5 does not reach 0.6; the token that crosses it stays
        ({"top_p": 0.9}, [2, 2, 0, 0, 3, 3]),
        ({"top_p": 0.99}, [2, 2, 0, 0, 3, 1]),
        ({"top_k": 2, "top_p": 0.62}, [2, 2, 2, 2, 2, 2]),  # of the two, token 2 has 0.625
        ({"top_k": 3, "top_p": 0.7}, [2, 2, 2, 0, 0, 0]),
    ],
    ids=str,
)
def test_draws_walk_from_the_likeliest_on(phase6: ModuleType, settings: dict[str, float], expected: list[int]) -> None:
    draws = [0.0, 0.45, 0.55, 0.77, 0.93, 0.999999]
    logits = logs(0.3, 0.05, 0.5, 0.15)
    params = SamplingParams(temperature=1.0, **settings)  # type: ignore[arg-type]
    yours = sampled(phase6, [(logits, params, draw) for draw in draws])
    expect_rows(
        {f"draw {draw}": pair for draw, pair in zip(draws, zip(yours, expected, strict=True), strict=True)},
        rule="First top_k, then top_p, each time scaled to 1; then walk from the likeliest on until over the draw.",
        situation=f"probabilities {{2: 0.5, 0: 0.3, 3: 0.15, 1: 0.05}}, temperature 1, {settings or 'no filter'}",
        hint="which tokens are kept, what are their shares of what is kept, and where in these does the draw fall?",
    )


@pytest.mark.task6_5
def test_temperature_divides_the_logits(phase6: ModuleType) -> None:
    # 0.6 and 0.4: at temperature 0.5 their squares, 0.692 and 0.308; at 2 their roots, 0.551 and 0.449.
    rows = [(logs(0.4, 0.6), SamplingParams(temperature=t), d) for t in (0.5, 1.0, 2.0) for d in (0.57, 0.65)]
    yours = sampled(phase6, rows)
    expected = [1, 1, 1, 0, 0, 0]
    expect_rows(
        {
            f"temperature {row[1].temperature}, draw {row[2]}": pair
            for row, pair in zip(rows, zip(yours, expected, strict=True), strict=True)
        },
        rule="Logits are divided by the temperature: below 1 the likeliest token gets likelier.",
        situation="two tokens with probabilities 0.4 and 0.6 at temperature 1",
        hint="is the temperature applied before the softmax or after it, and by which operation?",
    )


@pytest.mark.task6_5
def test_top_p_counts_at_the_rows_own_temperature(phase6: ModuleType) -> None:
    # 0.6, 0.3, 0.1 become 0.783, 0.196, 0.022 at temperature 0.5: one token reaches 0.7.
    params = SamplingParams(temperature=0.5, top_p=0.7)
    expect_equal(
        sampled(phase6, [(logs(0.6, 0.3, 0.1), params, 0.95)]),
        [0],
        rule="top_p counts probabilities after the temperature.",
        situation="probabilities 0.6, 0.3, 0.1 at temperature 1; temperature 0.5, top_p 0.7, draw 0.95",
        hint="in which order does the docstring name the steps?",
    )


@pytest.mark.task6_5
def test_a_probability_that_is_just_top_p_reaches_it(phase6: ModuleType) -> None:
    draws = [0.1, 0.9]
    params = SamplingParams(temperature=1.0, top_p=0.5)
    yours = sampled(phase6, [([0.0, -1000.0, 0.0], params, draw) for draw in draws])
    expect_equal(
        len(set(yours)),
        1,
        rule="top_p keeps the fewest tokens whose probabilities reach it: just as much is enough.",
        situation=f"probabilities 0.5, 0, 0.5; top_p=0.5; draws {draws}; yours chose {yours}; counted: different ones",
        hint="with the first 0.5 kept, how much is missing to top_p?",
    )


@pytest.mark.task6_5
def test_every_draw_of_a_fair_die_has_its_token(phase6: ModuleType) -> None:
    draws = [0.0, 0.25, 0.5, 0.75]
    yours = sampled(phase6, [([0.0] * 4, SamplingParams(temperature=1.0), draw) for draw in draws])
    expect_equal(
        len(set(yours)),
        4,
        rule="The walk goes on until the probabilities add up to more than the draw, not to as much.",
        situation=f"four equal tokens, draws {draws}; yours chose {yours}; counted: different tokens",
        hint="with the draw 0.25, is 0.25 more than the draw?",
    )


@pytest.mark.task6_5
def test_the_largest_draw_gives_a_token_that_was_kept(phase6: ModuleType) -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(2000, generator=generator)
    largest = 1 - 2**-53  # the largest number that random() gives
    three_best = sorted(logits.topk(3).indices.tolist())
    yours = sampled(
        phase6,
        [
            (logits.tolist(), SamplingParams(temperature=1.0), largest),
            (logits.tolist(), SamplingParams(temperature=1.0, top_k=3), largest),
            (logits.tolist(), SamplingParams(temperature=1.0, top_p=1e-6), largest),
        ],
    )
    expect_rows(
        {
            "no filter: a token of the vocabulary": (0 <= yours[0] < 2000, True),
            "top_k=3: one of the three likeliest": (yours[1] in three_best, True),
            "tiny top_p: the likeliest": (yours[2], int(logits.argmax())),
        },
        rule="The last kept token comes even if rounding leaves the sum below the draw.",
        situation=f"2000 tokens, draw {largest}; yours chose {yours}",
        hint="what does your walk do when it has passed the last token?",
    )


@pytest.mark.task6_5
def test_rows_have_their_own_settings_and_no_row_gives_no_token(phase6: ModuleType) -> None:
    logits = logs(0.3, 0.05, 0.5, 0.15)
    rows = [
        (logits, SamplingParams(temperature=1.0), 0.999999),
        (logits, SamplingParams(), 0.999999),
        (logits[::-1], SamplingParams(temperature=1.0, top_k=2), 0.8),
        (logits[::-1], SamplingParams(), 0.8),
        (logits, SamplingParams(temperature=1.0, top_p=0.6), 0.0),
    ]
    expect_rows(
        {
            "five rows": (sampled(phase6, rows), [1, 2, 3, 1, 2]),
            "no rows": (as_ints(phase6.sample(torch.zeros(0, 4), [], []), "sample"), []),
        },
        rule="Each row is sampled with its own settings and its own draw; a step in which nobody samples gives [].",
        situation="greedy rows between random ones; then logits of the shape [0, 4]",
        hint="which of your operations look at more than one row?",
    )


@pytest.mark.task6_5
@pytest.mark.parametrize("seed", range(5))
def test_random_rows_against_the_naive_sampler(phase6: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    vocab_size = rng.choice([5, 12, 40])
    rows: list[Any] = []
    expected: list[int] = []
    while len(rows) < 60:
        row = random_row(rng, vocab_size)
        token = naive_sample(*row)
        if token is not None:
            rows.append(row)
            expected.append(token)
    yours = sampled(phase6, rows)
    wrong = [index for index in range(60) if yours[index : index + 1] != expected[index : index + 1]]
    if wrong:
        logits, params, draw = rows[wrong[0]]
        likeliest = sorted(range(vocab_size), key=lambda token: -logits[token])[:8]
        expect_equal(
            yours[wrong[0] : wrong[0] + 1],
            [expected[wrong[0]]],
            rule="Temperature, top_k, top_p, then the walk: in this order.",
            situation=f"row {wrong[0]} of 60; temperature={params.temperature} top_k={params.top_k} "
            f"top_p={params.top_p:.3f} draw={draw:.6f}\n"
            f"likeliest tokens and logits: {', '.join(f'{token}: {logits[token]:.3f}' for token in likeliest)}",
            hint="work this row out by hand: what is kept, and where does the draw fall?",
        )


# Task 6.6: kv_block_bytes and num_blocks_that_fit


@pytest.mark.task6_6
@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((1, 1, 1, 1, 1), 2), ((32, 16, 8, 128, 2), 2_097_152), ((3, 5, 7, 11, 4), 9240), ((28, 16, 2, 128, 2), 458_752)],
)
def test_bytes_of_a_block(phase6: ModuleType, sizes: tuple[int, int, int, int, int], expected: int) -> None:
    expect_equal(
        phase6.kv_block_bytes(*sizes),
        expected,
        rule="A block holds K and V of its tokens, for every layer and K/V head.",
        situation="num_layers={}, block_size={}, num_kv_heads={}, head_dim={}, bytes_per_number={}".format(*sizes),
        hint="how many numbers does one token leave behind in one layer?",
    )


@pytest.mark.task6_6
@pytest.mark.parametrize(
    ("total", "free", "share", "block_bytes", "expected"),
    [
        (1000, 1000, 0.5, 100, 5),
        (1000, 500, 0.75, 50, 5),  # 750 allowed, 500 taken
        (1000, 800, 0.75, 100, 5),  # 550 left: whole blocks only
        (1000, 700, 1.0, 100, 7),
        (1000, 700, 0.5, 100, 2),  # just enough
        (80 * 2**30, 78 * 2**30, 0.875, 2**21, 34_816),
    ],
)
def test_blocks_that_fit(
    phase6: ModuleType, total: int, free: int, share: float, block_bytes: int, expected: int
) -> None:
    expect_equal(
        phase6.num_blocks_that_fit(total, free, share, block_bytes),
        expected,
        rule="The engine may use a share of all memory; what is taken already counts against that share.",
        situation=f"total={total:,}  free={free:,}  gpu_memory_utilization={share}  block_bytes={block_bytes:,}",
        hint="of which number is the share a share, and who has taken total - free?",
    )


@pytest.mark.task6_6
@pytest.mark.parametrize(
    ("total", "free", "share", "block_bytes"),
    [(1000, 700, 0.5, 101), (1000, 700, 0.5, 150), (1000, 300, 0.5, 10), (1000, 1000, 0.5, 501), (1000, 500, 0.5, 1)],
)
def test_no_room_is_refused_with_the_numbers(
    phase6: ModuleType, total: int, free: int, share: float, block_bytes: int
) -> None:
    situation = f"total={total}  free={free}  gpu_memory_utilization={share}  block_bytes={block_bytes}"
    hint = "one of the blocks is the null block: what could an engine with one block do?"
    rule = "If not even two blocks fit, num_blocks_that_fit raises ValueError and names the numbers."
    without_numbers = "whoever reads this must find out what to change: which numbers does it take?"
    try:
        num_blocks = phase6.num_blocks_that_fit(total, free, share, block_bytes)
    except ValueError as error:
        message = str(error)
        outcome = "ValueError with numbers"
        if not any(sign.isdigit() for sign in message):
            outcome, hint = f"ValueError: {message!r}", without_numbers
    else:
        outcome = f"{num_blocks} blocks"
    expect_equal(outcome, "ValueError with numbers", rule=rule, situation=situation, hint=hint)
