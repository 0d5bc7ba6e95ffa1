"""Tests for optional task 9, decode attention in C. Not graded; run them by name:

LAB_IMPL=starter pytest labs/phase6_gpu_runner/optional_task6_9_c.py

Your function runs in a separate process, so a read outside its arrays kills that process, not the tests.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import decode_attention_of, runner_steps_for
from mini_vllm.runner.c_library import can_compile
from mini_vllm_labs.grading.labtest.phase6.in_own_process import OwnProcess
from mini_vllm_labs.grading.labtest.phase6.one_step import expect_paged_attention, expect_same_logits

if not can_compile():
    pytest.skip("there is no C compiler (cc, gcc or clang)", allow_module_level=True)


@pytest.fixture(scope="module")
def source(lineup: Lineup) -> Path:
    """The C file, chosen by the lineup."""
    if lineup.runner == "absent":
        pytest.skip(f"phase 6 is not in the lineup {lineup}")
    return decode_attention_of(lineup.runner)


@pytest.fixture(scope="module")
def attend(source: Path) -> Iterator[OwnProcess]:
    with OwnProcess(source) as process:
        yield process


@pytest.mark.parametrize("group", [1, 2, 3, 4, 7, 8])
def test_query_heads_share_a_kv_head(attend: OwnProcess, group: int) -> None:
    expect_paged_attention(attend, [1, 1], [1, 21], group=group)


@pytest.mark.parametrize("num_kv_heads", [1, 3])
@pytest.mark.parametrize("head_dim", [8, 20, 64, 128])
def test_heads_of_any_size_and_number(attend: OwnProcess, head_dim: int, num_kv_heads: int) -> None:
    expect_paged_attention(attend, [1, 1], [5, 40], num_kv_heads=num_kv_heads, head_dim=head_dim)


@pytest.mark.parametrize("block_size", [1, 3, 8, 16, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_of_any_size(attend: OwnProcess, block_size: int, dtype: torch.dtype) -> None:
    lengths = [block_size, 2 * block_size + 3, 1]
    expect_paged_attention(attend, [1, 1, 1], lengths, group=7, block_size=block_size, dtype=dtype)


def test_many_requests_of_many_lengths(attend: OwnProcess) -> None:
    """Runs on two threads, to expose data accidentally shared by requests that are computed at the same time."""
    expect_paged_attention(attend, [1] * 64, [(37 * number) % 200 + 1 for number in range(64)], num_kv_heads=4)


def test_a_long_context(attend: OwnProcess) -> None:
    expect_paged_attention(attend, [1, 1], [2, 4096], num_kv_heads=1, head_dim=8)


@pytest.mark.parametrize("scale", [1000.0, -1000.0])
def test_scores_of_some_hundreds_stay_finite(attend: OwnProcess, scale: float) -> None:
    expect_paged_attention(attend, [1], [150], num_kv_heads=1, query_scale=scale)


def test_drafts_see_no_token_after_themselves(attend: OwnProcess) -> None:
    """Each token of a request is a separate row, whose length is the number of tokens it can see."""
    expect_paged_attention(attend, [5, 1, 2], [9, 150, 17], num_kv_heads=1, group=7)


def test_the_embedded_model_computes_the_same_logits(attend: OwnProcess, lineup: Lineup) -> None:
    expect_paged_attention(attend, [1], [1])
    expect_same_logits(runner_steps_for(lineup.runner).write_kv, attend, "cpu")
