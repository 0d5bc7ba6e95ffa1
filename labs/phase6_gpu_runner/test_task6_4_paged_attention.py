"""Graded tests for task 6.4."""

import math
from dataclasses import MISSING, fields
from types import ModuleType

import pytest
import torch
from torch import Tensor

from mini_vllm.runner.steps import RunnerSteps
from mini_vllm_labs.grading.labtest.expect import expect_equal
from mini_vllm_labs.grading.labtest.phase6.attention_checks import QUESTION, check_averages, expect_attention
from mini_vllm_labs.grading.labtest.phase6.batches import as_the_model_gives_it, naive_flat_batch
from mini_vllm_labs.grading.labtest.phase6.devices import call_on_a_device
from mini_vllm_labs.grading.labtest.phase6.reference_attention import AttentionSteps
from mini_vllm_labs.grading.labtest.phase6.threads import one_thread as one_thread
from mini_vllm_labs.grading.plays.phase6_plays import describe_rows, number_of, row_of

FIRST_IS_1 = "1 for the first token of the request, 2 for the second, and so on"


@pytest.mark.parametrize("num_computed", [0, 3, 4, 5, 12])
def test_a_decode_sees_all_tokens_of_its_request(phase6: ModuleType, num_computed: int) -> None:
    batch = [row_of("A", num_computed, 1, [7, 2, 9, 4])]
    check_averages(phase6.paged_attention, batch, value_of=lambda _, position, __: position + 1, values_are=FIRST_IS_1)


@pytest.mark.parametrize(("num_computed", "n"), [(0, 6), (0, 4), (4, 4), (3, 6), (5, 2), (1, 9)])
def test_a_token_of_a_chunk_sees_what_is_before_it(phase6: ModuleType, num_computed: int, n: int) -> None:
    batch = [row_of("A", num_computed, n, [7, 2, 9])]
    check_averages(phase6.paged_attention, batch, value_of=lambda _, position, __: position + 1, values_are=FIRST_IS_1)


@pytest.mark.parametrize("order", ["ABCD", "DCBA", "CADB"])
def test_requests_of_a_batch_do_not_see_each_other(phase6: ModuleType, order: str) -> None:
    rows = {
        "A": row_of("A", 8, 1, [7, 2, 9]),
        "B": row_of("B", 0, 3, [4], num_more=1),
        "C": row_of("C", 2, 1, [1]),
        "D": row_of("D", 3, 3, [6, 3]),
    }
    check_averages(
        phase6.paged_attention,
        [rows[name] for name in order],
        value_of=lambda name, _, __: number_of(name),
        values_are="1 for A, 2 for B, 3 for C, 4 for D",
    )


@pytest.mark.parametrize(
    ("num_kv_heads", "group"), [(2, 2), (3, 2), (2, 4), (4, 1), (1, 4), (2, 3), (2, 6), (2, 7), (3, 16)]
)
def test_query_heads_share_kv_heads(phase6: ModuleType, num_kv_heads: int, group: int) -> None:
    batch = [row_of("A", 4, 1, [7, 2]), row_of("B", 1, 3, [4]), row_of("C", 2, 1, [1])]
    check_averages(
        phase6.paged_attention,
        batch,
        num_kv_heads=num_kv_heads,
        group=group,
        value_of=lambda name, _, head: 10 * number_of(name) + head,
        values_are="10 for A, 20 for B, 30 for C, each plus the number of the K/V head",
    )


@pytest.mark.parametrize("n", [1, 3], ids=["decode", "chunk"])
@pytest.mark.parametrize(("num_kv_heads", "group"), [(2, 2), (2, 4), (3, 2), (2, 7)])
def test_each_head_attends_with_its_own_query(phase6: ModuleType, n: int, num_kv_heads: int, group: int) -> None:
    # Query head h has a high score only with the token at position h; V is 10 times that position plus the K/V head.
    num_heads = num_kv_heads * group
    batch = [row_of("A", num_heads, n, [2, 1])]
    flat = naive_flat_batch(batch, 16)
    cache_shape = (3, 16, num_kv_heads, num_heads)
    key_cache, value_cache = torch.zeros(cache_shape), torch.zeros(cache_shape)
    for position in range(num_heads):
        key_cache[2, position, :, position] = 1
        value_cache[2, position] = 10 * position + torch.arange(num_kv_heads)[:, None]
    query = (100 * torch.eye(num_heads)).repeat(n, 1, 1)
    numbers = torch.tensor([10.0 * head + head // group for head in range(num_heads)])
    expected = numbers[None, :, None].expand(n, num_heads, num_heads)
    yours = phase6.paged_attention(as_the_model_gives_it(query), key_cache, value_cache, flat, 1.0)
    situation = (
        f"{num_heads} query heads, {num_kv_heads} K/V heads; query head h sees the token at position h alone;\n"
        f"V is 10 times the position plus the number of the K/V head\n{describe_rows(batch, 16)}"
    )

    expect_attention(
        yours,
        expected,
        situation,
        flat,
        ["A"] * n,
        "Query head h attends with its own query to K/V head h // (heads // kv_heads), and comes out in place h.",
        "which K/V head does a query head read (rule 7), and where do your heads change their order?",
    )


@pytest.mark.parametrize("scale", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("n", [1, 2])
def test_scale_multiplies_the_scores(phase6: ModuleType, scale: float, n: int) -> None:
    # Two tokens; q.k is 2 for the first and 0 for the second, and V is 1 in the first and 0 in the second.
    batch = [row_of("A", 2 - n, n, [1])]
    key_cache, value_cache = torch.zeros(3, 4, 1, 2), torch.zeros(3, 4, 1, 2)
    key_cache[1, 0, 0, 0] = value_cache[1, 0, 0, 0] = 1
    query = torch.tensor([[[2.0, 0.0]]] * n)
    share = 1 / (1 + math.exp(-2 * scale))
    expected = torch.tensor([[[1.0, 0.0]], [[share, 0.0]]])[-n:]
    flat = naive_flat_batch(batch, 4)
    yours = phase6.paged_attention(query, key_cache, value_cache, flat, scale)
    expect_attention(
        yours,
        expected,
        f"scale={scale}; q.k is 2 with the first token and 0 with the second; only the first has V = 1\n"
        f"{describe_rows(batch, 4)}",
        flat,
        ["A"] * n,
        "The scores q.k are multiplied by the argument `scale`, then the softmax is taken.",
        "with which number do you multiply q.k, and which tokens does each token see?",
    )


@pytest.mark.parametrize(("num_kv_heads", "group"), [(1, 1), (2, 1), (1, 2), (2, 2), (1, 4), (2, 4), (2, 3), (1, 7)])
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_random_steps_against_the_naive_attention(
    phase6: ModuleType, block_size: int, num_kv_heads: int, group: int
) -> None:
    for seed in range(3):
        AttentionSteps(seed, block_size, num_kv_heads, group).play(phase6.paged_attention)


@pytest.mark.parametrize(("head_dim", "num_kv_heads"), [(5, 2), (3, 1), (64, 2), (80, 1), (128, 5), (256, 1)])
def test_heads_of_any_size(phase6: ModuleType, head_dim: int, num_kv_heads: int) -> None:
    AttentionSteps(1, 4, num_kv_heads, group=2, head_dim=head_dim).play(phase6.paged_attention, num_steps=2)


@pytest.mark.parametrize("seed", range(3))
def test_contexts_of_hundreds_of_tokens(phase6: ModuleType, seed: int) -> None:
    lengths = (70, 150, 330)
    AttentionSteps(seed, 16, num_kv_heads=1, group=2, lengths=lengths).play(phase6.paged_attention, num_steps=3)


@pytest.mark.parametrize("seed", range(3))
def test_random_steps_through_all_your_parts(phase6: ModuleType, seed: int) -> None:
    names = [field.name for field in fields(RunnerSteps) if field.default is MISSING]
    parts = RunnerSteps(**{name: getattr(phase6, name) for name in names})
    AttentionSteps(seed, 4, num_kv_heads=2, group=2).play(parts.paged_attention, parts)


@pytest.mark.parametrize("num_computed", [0, 255, 300, 700])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_a_token_of_a_long_context_sees_itself_and_not_the_next_one(
    phase6: ModuleType, num_computed: int, dtype: torch.dtype
) -> None:
    # Above 256, bfloat16 holds only even integers, so a position in the query's dtype may be rounded to a different
    # token's position.
    check_averages(
        phase6.paged_attention,
        [row_of("A", num_computed, 6, range(1, 46)), row_of("B", 2, 1, [50])],
        block_size=16,
        dtype=dtype,
        value_of=lambda _, position, __: 100.0 * 2 ** (position - num_computed) if position >= num_computed else 0.0,
        values_are=f"0 up to position {num_computed - 1}, then 100, 200, 400 and so on",
    )


def test_an_answer_is_not_the_next_one(phase6: ModuleType) -> None:
    batch = [row_of("A", 5, 1, [1, 2]), row_of("B", 2, 3, [3, 4])]
    flat, keys = naive_flat_batch(batch, 4), torch.zeros(5, 4, 1, 2)
    answers = [phase6.paged_attention(torch.ones(4, 1, 2), keys, keys + one, flat, 0.5) for one in (1, 2)]
    first, second = (answer.double().round(decimals=3).unique().tolist() for answer in answers)
    expect_equal(
        {"the first answer": first, "the second": second},
        {"the first answer": [1.0], "the second": [2.0]},
        rule="Each call returns a new tensor and keeps nothing for the next: each layer has its own caches.",
        situation=f"two calls with one batch, all V are 1 and then 2; compared after both\n{describe_rows(batch, 4)}",
        hint="what do your two calls share: the tensor that you return, K and V, or an answer?"
        if first == [2.0] or second == [1.0]
        else QUESTION,
    )


def test_many_long_requests(phase6: ModuleType) -> None:
    # In the engine, 8 decodes of about 1,095 tokens form two groups with the same shape. 100 short decodes and two
    # chunks follow.
    long = [row_of(f"R{number}", 1099 - number, 1, range(69 * number, 69 * number + 69)) for number in range(1, 9)]
    short = [row_of(f"R{number}", number % 7, 1, [700 + number]) for number in range(9, 109)]
    check_averages(
        phase6.paged_attention,
        [*long, row_of("R109", 0, 300, range(900, 919)), *short, row_of("R110", 5000, 2, range(1000, 1313))],
        block_size=16,
        value_of=lambda name, position, _: number_of(name) + 100 * (position // 1000),
        values_are="1 for R1, 2 for R2 and so on; 100 more from position 1,000 on, 200 more from 2,000 on and so on",
    )


def attend_in_bfloat16(phase6: ModuleType, n: int) -> tuple[Tensor, str]:
    batch = [row_of("A", 5, n, [1, 2]), row_of("B", 2, 1, [3])]
    caches = [torch.zeros(5, 4, 1, 2, dtype=torch.bfloat16) for _ in range(2)]
    query, flat = torch.ones(n + 1, 2, 2, dtype=torch.bfloat16), naive_flat_batch(batch, 4)
    situation = f"query and caches in bfloat16\n{describe_rows(batch, 4)}"
    yours: Tensor = call_on_a_device(
        phase6.paged_attention, query, *caches, flat, 0.5, name="paged_attention", situation=situation
    )
    return yours, situation


@pytest.mark.parametrize("n", [1, 3])
def test_the_result_has_dtype_and_device_of_the_query(phase6: ModuleType, n: int) -> None:
    yours, situation = attend_in_bfloat16(phase6, n)
    expect_equal(
        {"dtype": yours.dtype, "device": yours.device},
        {"dtype": torch.bfloat16, "device": torch.device("cpu")},
        rule="The result has the query's dtype and device, because the model continues with it.",
        situation=situation,
        hint="where do your tensors get their dtype and device?",
    )
