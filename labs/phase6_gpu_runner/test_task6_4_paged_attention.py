"""Graded tests of task 6.4."""

import math
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

from course.labtest.phase6.reference_attention import (
    AttentionSteps,
    check_averages,
    describe_rows,
    expect_attention,
    naive_flat_batch,
    row_of,
)
from course.labtest.support import expect_equal
from mini_vllm.runner.steps import RunnerSteps


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors this small are computed ten times faster by one thread than by several that wait for each other."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


FIRST_IS_1 = "1 for the first token of the request, 2 for the second, and so on"


def number_of(name: str) -> int:
    return ord(name) - ord("A") + 1


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
    batch = [rows[name] for name in order]
    check_averages(
        phase6.paged_attention,
        batch,
        value_of=lambda name, _, __: number_of(name),
        values_are="1 for A, 2 for B, 3 for C, 4 for D",
    )


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


@pytest.mark.parametrize(("num_kv_heads", "group"), [(1, 1), (2, 1), (1, 2), (2, 2), (1, 4), (2, 4)])
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_random_steps_against_the_naive_attention(
    phase6: ModuleType, block_size: int, num_kv_heads: int, group: int
) -> None:
    for seed in range(3):
        AttentionSteps(seed, block_size, num_kv_heads, group).play(phase6.paged_attention)


@pytest.mark.parametrize("seed", range(3))
def test_random_steps_through_all_your_parts(phase6: ModuleType, seed: int) -> None:
    parts = RunnerSteps.of(phase6)
    AttentionSteps(seed, 4, num_kv_heads=2, group=2).play(parts.paged_attention, parts)


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
