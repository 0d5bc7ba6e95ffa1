"""Tests for optional task 8, the Triton kernels. Not graded; run them by name:

LAB_IMPL=starter pytest labs/phase6_gpu_runner/optional_task6_8_triton.py

Without a GPU the kernels run in Triton's interpreter, one program after another.
"""

import os
import subprocess
import sys
from types import ModuleType

import pytest
import torch

from mini_vllm.assembly.lineup import CHECKOUT, Lineup
from mini_vllm.installation import install_command
from mini_vllm_labs.grading.labtest.phase6.batches import as_the_model_gives_it
from mini_vllm_labs.grading.labtest.phase6.interpreter import IS_TOO_LATE, WITHOUT_GPU
from mini_vllm_labs.grading.labtest.phase6.one_step import (
    TOLERANCE,
    expect_close,
    expect_paged_attention,
    expect_same_logits,
    numbers,
)

DEVICE = "cpu" if WITHOUT_GPU else "cuda"
if IS_TOO_LATE:
    pytest.skip("triton is imported already, without its interpreter: run this file by itself", allow_module_level=True)
pytest.importorskip("triton", reason=f"triton is not installed: {install_command('triton')} (Linux)")


@pytest.fixture(scope="module")
def kernels(lineup: Lineup) -> ModuleType:
    """The module with the kernels, chosen by the lineup."""
    if lineup.runner == "starter":
        from labs.phase6_gpu_runner import starter_triton

        return starter_triton
    if lineup.runner == "absent":
        pytest.skip(f"phase 6 is not in the lineup {lineup}")
    from solutions import phase6_triton_kernels

    return phase6_triton_kernels


@pytest.mark.parametrize(("num_kv_heads", "head_dim", "block_size"), [(2, 8, 4), (3, 20, 3), (1, 64, 16)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_k_and_v_go_to_their_slots(
    kernels: ModuleType, num_kv_heads: int, head_dim: int, block_size: int, dtype: torch.dtype
) -> None:
    slots = [7, 0, -1, 3 * block_size, 5]
    before = torch.full((5, block_size, num_kv_heads, head_dim), float("nan"), dtype=dtype, device=DEVICE)
    cache = {"K": before.clone(), "V": before.clone()}
    new = {"K": numbers(5, num_kv_heads, head_dim, dtype=dtype).to(DEVICE)}
    new["V"] = new["K"] * 2 + 1
    transposed = as_the_model_gives_it(new["K"])
    kernels.reshape_and_cache(transposed, new["V"], cache["K"], cache["V"], torch.tensor(slots, device=DEVICE))
    for name, yours in cache.items():
        expected = before.clone()
        for token, slot in enumerate(slots):
            if slot >= 0:
                expected[slot // block_size, slot % block_size] = new[name][token]
        expect_close(
            yours,
            expected,
            rule="Each token's K and V go to its slot, a slot below 0 is skipped, all other slots stay as they are.",
            situation=f"{name} cache, slots {slots}, block_size={block_size}, {num_kv_heads} heads of {head_dim}; "
            f"K is a transposed view, V is contiguous; NaN where nothing was written",
            hint="whose strides do you use for K, whose for V? Are the tiles masked where they are too large?",
        )


@pytest.mark.parametrize("group", [1, 2, 3, 4, 7, 8])
def test_query_heads_share_a_kv_head(kernels: ModuleType, group: int) -> None:
    expect_paged_attention(kernels.paged_attention, [1, 1], [1, 21], group=group, device=DEVICE)


@pytest.mark.parametrize("head_dim", [8, 20, 32, 64, 80, 128])
def test_heads_of_any_size(kernels: ModuleType, head_dim: int) -> None:
    expect_paged_attention(kernels.paged_attention, [1, 1], [5, 40], num_kv_heads=1, head_dim=head_dim, device=DEVICE)


@pytest.mark.parametrize("block_size", [1, 3, 8, 16, 32])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_blocks_of_any_size(kernels: ModuleType, block_size: int, dtype: torch.dtype) -> None:
    expect_paged_attention(
        kernels.paged_attention,
        [1, 1],
        [block_size, 2 * block_size + 3],
        group=7,
        block_size=block_size,
        dtype=dtype,
        device=DEVICE,
    )


@pytest.mark.parametrize(("num_programs", "max_parts"), [(512, 32), (512, 2), (1, 32)])
@pytest.mark.parametrize(
    ("queries", "seq_lens"), [([1], [1, 127, 128, 129]), ([1], [1000]), ([1], [2, 4096]), ([60], [150])]
)
def test_a_context_of_any_length_in_any_number_of_parts(
    kernels: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    queries: list[int],
    seq_lens: list[int],
    num_programs: int,
    max_parts: int,
) -> None:
    """A short request batched with a long one has parts with no keys, as do some of a chunk's tokens."""
    monkeypatch.setattr(kernels, "NUM_PROGRAMS", num_programs)
    monkeypatch.setattr(kernels, "MAX_PARTS", max_parts)
    expect_paged_attention(kernels.paged_attention, queries * len(seq_lens), seq_lens, num_kv_heads=1, device=DEVICE)


@pytest.mark.parametrize(
    ("queries", "seq_lens", "group"),
    [
        ([1, 20, 1], [30, 20, 1], 3),  # a prompt between two decodes
        ([70, 1, 33], [70, 290, 170], 2),  # chunks of longer prompts; the first chunk spans several tiles
        ([5, 2], [9, 150], 7),  # drafts
    ],
)
def test_prompts_chunks_and_decodes_in_one_step(
    kernels: ModuleType, queries: list[int], seq_lens: list[int], group: int
) -> None:
    expect_paged_attention(kernels.paged_attention, queries, seq_lens, num_kv_heads=1, group=group, device=DEVICE)


def test_scores_of_some_hundreds_stay_finite(kernels: ModuleType) -> None:
    expect_paged_attention(kernels.paged_attention, [1], [150], num_kv_heads=1, query_scale=1000.0, device=DEVICE)


def test_the_embedded_model_computes_the_same_logits(kernels: ModuleType) -> None:
    expect_same_logits(kernels.reshape_and_cache, kernels.paged_attention, DEVICE)


@pytest.mark.parametrize("capability", [80, 90])
def test_the_kernels_compile_for_gpus(kernels: ModuleType, capability: int) -> None:
    """Triton includes its compiler, so this test needs no GPU. The compiler finds errors that the interpreter
    misses."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [
        sys.executable,
        "-m",
        "mini_vllm_labs.grading.labtest.phase6.compile_kernels",
        kernels.__name__,
        str(capability),
    ]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        if last and last[0].startswith("NotImplementedError"):
            raise NotImplementedError(last[0].partition(": ")[2])
        pytest.fail(f"Triton cannot compile a kernel for sm_{capability}:\n{done.stderr[-2000:]}", pytrace=False)
    assert done.stdout.split()[::2] == [f"sm_{capability}"] * 9, done.stdout
