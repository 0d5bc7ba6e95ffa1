"""Tests of the optional task 8, the Triton kernels. Not graded; run them by name:

LAB_IMPL=starter pytest labs/phase6_gpu_runner/optional_task6_8_triton.py

Without a GPU the kernels run in Triton's interpreter, one program after another.
"""

import os
import random
import subprocess
import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor

from course.labtest.expect import lab_failure
from course.labtest.phase6.batches import as_the_model_gives_it, naive_flat_batch, row_of
from course.labtest.phase6.interpreter import IS_TOO_LATE, WITHOUT_GPU
from course.labtest.phase6.reference_attention import naive_attention
from mini_vllm.assembly.lineup import CHECKOUT, Lineup
from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.runner.kernels import TritonKernels, with_kernels
from mini_vllm.runner.loading import load_model
from mini_vllm.runner.paged_model import PagedModel

DEVICE = "cpu" if WITHOUT_GPU else "cuda"
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}
if IS_TOO_LATE:
    pytest.skip("triton is imported already, without its interpreter: run this file by itself", allow_module_level=True)
pytest.importorskip("triton", reason="triton is not installed: pip install -c constraints.txt -e '.[triton]' (Linux)")


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


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype).to(DEVICE)


def expect_close(yours: Tensor, expected: Tensor, *, rule: str, situation: str, hint: str) -> None:
    """Continue if the tensors agree within their dtype, NaN with NaN; else show the first number that differs."""
    limit = TOLERANCE[expected.dtype]
    is_off = ~torch.isclose(yours, expected, rtol=limit, atol=limit, equal_nan=True)
    if is_off.any():
        place = tuple(int(number) for number in is_off.nonzero()[0])
        lab_failure(
            rule=rule,
            situation=f"{situation}\n{int(is_off.sum())} of {is_off.numel()} numbers differ, the first at {place}",
            expected=float(expected[place]),
            yours=float(yours[place]),
            hint=hint,
        )


@pytest.mark.parametrize(("num_kv_heads", "head_dim", "block_size"), [(2, 8, 4), (3, 20, 3), (1, 64, 16)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_k_and_v_go_to_their_slots(
    kernels: ModuleType, num_kv_heads: int, head_dim: int, block_size: int, dtype: torch.dtype
) -> None:
    slots = [7, 0, -1, 3 * block_size, 5]
    before = torch.full((5, block_size, num_kv_heads, head_dim), float("nan"), dtype=dtype, device=DEVICE)
    cache = {"K": before.clone(), "V": before.clone()}
    new = {"K": numbers(5, num_kv_heads, head_dim, dtype=dtype)}
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


@pytest.mark.parametrize(
    ("num_kv_heads", "group", "head_dim", "block_size", "dtype"),
    [
        (2, 4, 8, 4, torch.float32),
        (1, 3, 20, 3, torch.float32),
        (2, 7, 64, 16, torch.float32),
        (2, 1, 32, 1, torch.float32),
        (2, 4, 32, 16, torch.bfloat16),
        (2, 4, 32, 16, torch.float16),
    ],
)
def test_decodes_attend_over_their_blocks(
    kernels: ModuleType, num_kv_heads: int, group: int, head_dim: int, block_size: int, dtype: torch.dtype
) -> None:
    seq_lens = [1, block_size, block_size + 1, 2 * block_size + 5]
    longest = -(-seq_lens[-1] // block_size)
    shape = (4 * longest + 1, block_size, num_kv_heads, head_dim)
    key_cache, value_cache = (torch.full(shape, float("nan"), dtype=dtype, device=DEVICE) for _ in range(2))
    blocks = random.Random(0).sample(range(1, len(key_cache)), 4 * longest)
    tables = torch.zeros(4, longest, dtype=torch.int64)
    query = numbers(4, num_kv_heads * group, head_dim, dtype=dtype)
    expected = torch.empty_like(query)
    for request, seq_len in enumerate(seq_lens):
        keys, values = (numbers(seq_len + extra, num_kv_heads, head_dim, dtype=dtype)[:seq_len] for extra in (0, 1))
        num_blocks = -(-seq_len // block_size)
        tables[request, :num_blocks] = torch.tensor([blocks.pop() for _ in range(num_blocks)])
        for position in range(seq_len):
            place = int(tables[request, position // block_size]), position % block_size
            key_cache[place], value_cache[place] = keys[position], values[position]
        expected[request] = naive_attention(query[request].float(), list(keys.float()), list(values.float()), 0.3)
    yours = kernels.paged_decode_attention(
        as_the_model_gives_it(query),
        key_cache,
        value_cache,
        tables.to(DEVICE),
        torch.tensor(seq_lens, device=DEVICE),
        0.3,
    )
    expect_close(
        yours,
        expected,
        rule="Each token attends to all tokens that its request has in the cache, and to nothing else.",
        situation=f"{num_kv_heads} K/V heads for {num_kv_heads * group} query heads of {head_dim}, {dtype}, "
        f"block_size={block_size}, seq_lens={seq_lens}; NaN in every slot that no token may read",
        hint="if it is NaN, a slot after seq_len was read. Else: do both sums shrink when a larger score comes?",
    )


def test_scores_of_some_hundreds_stay_finite(kernels: ModuleType) -> None:
    query, cache = numbers(1, 2, 8) * 300, numbers(2, 4, 1, 8)
    tables, seq_lens = torch.tensor([[1]], device=DEVICE), torch.tensor([4], device=DEVICE)
    expected = naive_attention(query[0], list(cache[1]), list(cache[1]), 1.0)
    expect_close(
        kernels.paged_decode_attention(query, cache, cache, tables, seq_lens, 1.0)[0],
        expected,
        rule="The largest score so far is subtracted before exp is taken.",
        situation="scores of some hundreds, whose exponential is no float32 number",
        hint="is it exp(score - largest), in both sums?",
    )


@torch.inference_mode()
def test_the_embedded_model_computes_the_same_logits(kernels: ModuleType, lineup: Lineup) -> None:
    """Two requests, token by token, so that every step is a decode."""
    loaded, _ = load_model()
    prompts = [[101, 102, 103, 104, 105, 106], [201, 202, 203, 204, 205, 206]]
    ids = torch.tensor(prompts, device=loaded.device)
    expected = loaded.model(input_ids=ids, use_cache=False).logits[:, -1]
    functions = TritonKernels(kernels.reshape_and_cache, kernels.paged_decode_attention)
    steps = with_kernels(runner_steps_for(lineup.runner), functions)
    model = PagedModel(loaded, steps.write_kv, steps.paged_attention, num_blocks=5, block_size=4)
    for position in range(6):
        more = 5 - position
        batch = [row_of(name, position, 1, blocks, num_more=more) for name, blocks in (("A", [3, 1]), ("B", [2, 4]))]
        flat = naive_flat_batch(batch, 4)
        flat.input_ids = ids[:, position].clone()
        flat.logits_indices = torch.tensor([0, 1])
        logits = model.forward(flat)
    expect_close(
        logits / expected.abs().max(),
        expected / expected.abs().max(),
        rule="Through your kernels the model computes what it computes by itself.",
        situation="the embedded model, two requests of 6 tokens, one token of each per step",
        hint="do the other tests of this file pass?",
    )


@pytest.mark.parametrize("capability", [80, 90])
def test_the_kernels_compile_for_gpus(kernels: ModuleType, capability: int) -> None:
    """Triton brings its compiler along, so this needs no GPU; it shows errors that the interpreter does not."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "course.labtest.phase6.compile_kernels", kernels.__name__, str(capability)]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        if last and last[0].startswith("NotImplementedError"):
            raise NotImplementedError(last[0].partition(": ")[2])
        pytest.fail(f"Triton cannot compile a kernel for sm_{capability}:\n{done.stderr[-2000:]}", pytrace=False)
    assert done.stdout.split() == [f"sm_{capability}"] * 4, done.stdout
