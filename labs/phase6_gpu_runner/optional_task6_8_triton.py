"""Tests of the optional task 8, the Triton kernels. Not graded; run them by name:

LAB_IMPL=starter pytest labs/phase6_gpu_runner/optional_task6_8_triton.py

Without a GPU the kernels run in Triton's interpreter, one program after another.
"""

import os
import subprocess
import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from course.labtest.expect import lab_failure
from course.labtest.phase6.batches import as_the_model_gives_it, naive_flat_batch, row_of
from course.labtest.phase6.interpreter import IS_TOO_LATE, WITHOUT_GPU
from course.labtest.phase6.reference_attention import naive_attention
from mini_vllm.assembly.lineup import CHECKOUT, Lineup
from mini_vllm.runner.loading import load_model
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.steps import FlatBatch

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


def on_the_device(batch: FlatBatch) -> FlatBatch:
    tensors: Any = {name: part.to(DEVICE) for name, part in vars(batch).items() if isinstance(part, Tensor)}
    return replace(batch, **tensors)


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


def paged(
    queries: list[int], seq_lens: list[int], *, num_kv_heads: int, head_dim: int, block_size: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, FlatBatch]:
    """Return K and V caches in which only what these requests may read is a number, and the batch of their last tokens.

    A request computes the last `queries[i]` of its `seq_lens[i]` tokens. Its blocks lie anywhere.
    """
    longest = -(-max(seq_lens) // block_size)
    shape = (len(queries) * longest + 1, block_size, num_kv_heads, head_dim)
    caches = [torch.full(shape, float("nan"), dtype=dtype, device=DEVICE) for _ in range(2)]
    blocks = torch.randperm(shape[0] - 1, generator=torch.Generator().manual_seed(longest)).to(DEVICE) + 1
    tables = torch.zeros(len(queries), longest, dtype=torch.int64, device=DEVICE)
    for request, seq_len in enumerate(seq_lens):
        num_blocks = -(-seq_len // block_size)
        tables[request, :num_blocks] = blocks[request * longest :][:num_blocks]
        places = torch.arange(seq_len, device=DEVICE)
        for cache, extra in zip(caches, (0, 1), strict=True):
            new = numbers(seq_len + extra, num_kv_heads, head_dim, dtype=dtype)[:seq_len]
            cache[tables[request, places // block_size], places % block_size] = new
    ends = torch.tensor([0, *queries], device=DEVICE).cumsum(0)
    lengths = torch.tensor(seq_lens, device=DEVICE)
    counted = [torch.arange(end - count, end, device=DEVICE) for count, end in zip(queries, seq_lens, strict=True)]
    positions, rest = torch.cat(counted), (queries, seq_lens, block_size)
    batch = FlatBatch(positions, positions, positions, ends, lengths, tables, ends[1:] - 1, *rest)
    return caches[0], caches[1], batch


def expect_attention(
    kernels: ModuleType,
    queries: list[int],
    seq_lens: list[int],
    *,
    num_kv_heads: int = 2,
    group: int = 2,
    head_dim: int = 32,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Compare the attention of one step with that of the reference's slow loop, in float32."""
    shape = {"num_kv_heads": num_kv_heads, "head_dim": head_dim, "block_size": block_size}
    key_cache, value_cache, batch = paged(queries, seq_lens, dtype=dtype, **shape)
    query = numbers(sum(queries), num_kv_heads * group, head_dim, dtype=dtype)
    expected = torch.empty_like(query)
    for request, count in enumerate(queries):
        slots = (
            key_cache[batch.block_tables[request]].flatten(0, 1),
            value_cache[batch.block_tables[request]].flatten(0, 1),
        )
        for row in range(sum(queries[:request]), sum(queries[:request]) + count):
            keys, values = (numbers[: int(batch.positions[row]) + 1].float() for numbers in slots)
            expected[row] = naive_attention(query[row].float(), list(keys), list(values), 0.3)
    view = as_the_model_gives_it(query)
    yours = [kernels.paged_attention(view, key_cache, value_cache, batch, 0.3) for _ in range(2)]
    expect_close(
        yours[0],
        expected,
        rule="Each token attends to all tokens of its request up to itself, and to nothing else.",
        situation=f"{num_kv_heads} K/V heads for {num_kv_heads * group} query heads of {head_dim}, {dtype}, block_size="
        f"{block_size}; tokens in this step {queries}, seq_lens {seq_lens}; NaN in every slot that no token may read",
        hint="if it is NaN: was a slot after seq_len read, or is a part without keys, or a row that sees none of them, "
        "minus infinity minus itself? Else: do both sums shrink when a larger score comes?",
    )
    assert torch.equal(*yours), "the same step twice gives different numbers: two programs write to the same place"


@pytest.mark.parametrize("group", [1, 2, 3, 4, 7, 8])
def test_query_heads_share_a_kv_head(kernels: ModuleType, group: int) -> None:
    expect_attention(kernels, [1, 1], [1, 21], group=group)


@pytest.mark.parametrize("head_dim", [8, 20, 32, 64, 80, 128])
def test_heads_of_any_size(kernels: ModuleType, head_dim: int) -> None:
    expect_attention(kernels, [1, 1], [5, 40], num_kv_heads=1, head_dim=head_dim)


@pytest.mark.parametrize("block_size", [1, 3, 8, 16, 32])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_blocks_of_any_size(kernels: ModuleType, block_size: int, dtype: torch.dtype) -> None:
    expect_attention(kernels, [1, 1], [block_size, 2 * block_size + 3], group=7, block_size=block_size, dtype=dtype)


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
    """A short request beside a long one has parts without keys, and a chunk has tokens that see nothing of the last."""
    monkeypatch.setattr(kernels, "NUM_PROGRAMS", num_programs)
    monkeypatch.setattr(kernels, "MAX_PARTS", max_parts)
    expect_attention(kernels, queries * len(seq_lens), seq_lens, num_kv_heads=1)


@pytest.mark.parametrize(
    ("queries", "seq_lens", "group"),
    [
        ([1, 20, 1], [30, 20, 1], 3),  # a prompt between two decodes
        ([70, 1, 33], [70, 290, 170], 2),  # chunks of longer prompts, the first one over several tiles
        ([5, 2], [9, 150], 7),  # drafts
    ],
)
def test_prompts_chunks_and_decodes_in_one_step(
    kernels: ModuleType, queries: list[int], seq_lens: list[int], group: int
) -> None:
    expect_attention(kernels, queries, seq_lens, num_kv_heads=1, group=group)


def test_scores_of_some_hundreds_stay_finite(kernels: ModuleType) -> None:
    key_cache, value_cache, batch = paged([1], [150], num_kv_heads=1, head_dim=8, block_size=16, dtype=torch.float32)
    query = numbers(1, 2, 8) * 300
    keys, values = (cache[batch.block_tables[0]].flatten(0, 1)[:150] for cache in (key_cache, value_cache))
    expect_close(
        kernels.paged_attention(query, key_cache, value_cache, batch, 1.0)[0],
        naive_attention(query[0], list(keys), list(values), 1.0),
        rule="The largest score so far is subtracted before exp is taken.",
        situation="scores of some hundreds, whose exponential is no float32 number",
        hint="is it exp(score - largest), in both sums, and where the parts are added up?",
    )


@torch.inference_mode()
def test_the_embedded_model_computes_the_same_logits(kernels: ModuleType) -> None:
    """Two requests: a prompt of four tokens, then one beside a decode, then decodes."""
    loaded, _ = load_model()
    ids = torch.tensor([[101, 102, 103, 104, 105, 106], [201, 202, 203, 204, 205, 206]], device=loaded.device)
    expected = loaded.model(input_ids=ids, use_cache=False).logits
    model = PagedModel(loaded, kernels.reshape_and_cache, kernels.paged_attention, num_blocks=5, block_size=4)
    for step in ({"A": (0, 4)}, {"A": (4, 1), "B": (0, 5)}, {"A": (5, 1), "B": (5, 1)}):
        rows = [row_of(name, *share, [3, 1] if name == "A" else [2, 4]) for name, share in step.items()]
        flat = on_the_device(naive_flat_batch(rows, 4))
        names = ["AB".index(name) for name, (_, count) in step.items() for _ in range(count)]
        flat.input_ids, flat.logits_indices = ids[names, flat.positions], torch.arange(len(names))
        expect_close(
            model.forward(flat) / expected.abs().max(),
            expected[names, flat.positions] / expected.abs().max(),
            rule="Through your kernels the model computes what it computes by itself.",
            situation=f"the embedded model; each request's first token of the step and their number: {step}",
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
    assert done.stdout.split()[::2] == [f"sm_{capability}"] * 9, done.stdout
