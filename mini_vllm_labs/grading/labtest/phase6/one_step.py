"""Tests attention kernels that are not torch functions, in one step over a paged cache."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mini_vllm.runner.loading import load_model
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.steps import FlatBatch, PagedAttention, WriteKV
from mini_vllm_labs.grading.labtest.expect import lab_failure
from mini_vllm_labs.grading.labtest.phase6.batches import as_the_model_gives_it, naive_flat_batch
from mini_vllm_labs.grading.labtest.phase6.reference_attention import naive_attention
from mini_vllm_labs.grading.plays.phase6_plays import row_of

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def expect_close(yours: Tensor, expected: Tensor, *, rule: str, situation: str, hint: str) -> None:
    """Pass if the tensors agree within their dtype's tolerance (NaN equals NaN); otherwise show the first number that
    differs."""
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


def paged(
    queries: list[int], seq_lens: list[int], *, num_kv_heads: int, head_dim: int, block_size: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, FlatBatch]:
    """Return a batch with each request's last tokens, and caches that contain NaN except where the requests may read.

    Each request computes the last `queries[i]` of its `seq_lens[i]` tokens. Its blocks are at random positions in the
    cache.
    """
    longest = -(-max(seq_lens) // block_size)
    shape = (len(queries) * longest + 1, block_size, num_kv_heads, head_dim)
    caches = [torch.full(shape, float("nan"), dtype=dtype) for _ in range(2)]
    blocks = torch.randperm(shape[0] - 1, generator=torch.Generator().manual_seed(longest)) + 1
    tables = torch.zeros(len(queries), longest, dtype=torch.int64)
    for request, seq_len in enumerate(seq_lens):
        num_blocks = -(-seq_len // block_size)
        tables[request, :num_blocks] = blocks[request * longest :][:num_blocks]
        places = torch.arange(seq_len)
        for cache, extra in zip(caches, (0, 1), strict=True):
            new = numbers(seq_len + extra, num_kv_heads, head_dim, dtype=dtype)[:seq_len]
            cache[tables[request, places // block_size], places % block_size] = new
    ends = torch.tensor([0, *queries]).cumsum(0)
    lengths = torch.tensor(seq_lens)
    counted = [torch.arange(end - count, end) for count, end in zip(queries, seq_lens, strict=True)]
    positions, rest = torch.cat(counted), (queries, seq_lens, block_size)
    batch = FlatBatch(positions, positions, positions, ends, lengths, tables, ends[1:] - 1, *rest)
    return caches[0], caches[1], batch


def on_device(batch: FlatBatch, device: str) -> FlatBatch:
    tensors: Any = {name: part.to(device) for name, part in vars(batch).items() if isinstance(part, Tensor)}
    return replace(batch, **tensors)


def expect_paged_attention(
    attention: PagedAttention,
    queries: list[int],
    seq_lens: list[int],
    *,
    num_kv_heads: int = 2,
    group: int = 2,
    head_dim: int = 32,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    query_scale: float = 1.0,
    device: str = "cpu",
) -> None:
    """Compare one step's attention with the result of the reference's slow loop, in float32."""
    shape = {"num_kv_heads": num_kv_heads, "head_dim": head_dim, "block_size": block_size}
    key_cache, value_cache, batch = paged(queries, seq_lens, dtype=dtype, **shape)
    query = numbers(sum(queries), num_kv_heads * group, head_dim, dtype=dtype) * query_scale
    expected = torch.empty_like(query)
    for request, count in enumerate(queries):
        slots = (
            key_cache[batch.block_tables[request]].flatten(0, 1),
            value_cache[batch.block_tables[request]].flatten(0, 1),
        )
        for row in range(sum(queries[:request]), sum(queries[:request]) + count):
            keys, values = (numbers[: int(batch.positions[row]) + 1].float() for numbers in slots)
            expected[row] = naive_attention(query[row].float(), list(keys), list(values), 0.3)
    caches = key_cache.to(device), value_cache.to(device)
    there = as_the_model_gives_it(query.to(device)), *caches, on_device(batch, device), 0.3
    yours = [attention(*there).to("cpu") for _ in range(2)]
    expect_close(
        yours[0],
        expected,
        rule="Each token attends to all tokens of its own request up to itself, and to no others.",
        situation=f"{num_kv_heads} K/V heads for {num_kv_heads * group} query heads of {head_dim}, {dtype}, block_size="
        f"{block_size}; tokens in this step {queries}, seq_lens {seq_lens}; query times {query_scale:g}; NaN in every "
        "slot that no token may read",
        hint="if it is NaN: do you read a slot after seq_len? Does a part without keys, or a row that sees none, "
        "subtract minus infinity from itself? Do you subtract the largest score before exp? Otherwise: do both sums "
        "shrink when a larger score comes?",
    )
    assert torch.equal(*yours), (
        "the same step gives different numbers the second time: two programs write to the same place"
    )


@torch.inference_mode()
def expect_same_logits(write_kv: WriteKV, attention: PagedAttention, device: str) -> None:
    """Run the embedded model for two requests: a four-token prompt, a prompt with a decode, then decodes."""
    loaded, _ = load_model()
    ids = torch.tensor([[101, 102, 103, 104, 105, 106], [201, 202, 203, 204, 205, 206]], device=device)
    expected = loaded.model(input_ids=ids, use_cache=False).logits
    model = PagedModel(loaded, write_kv, attention, num_blocks=5, block_size=4)
    for step in ({"A": (0, 4)}, {"A": (4, 1), "B": (0, 5)}, {"A": (5, 1), "B": (5, 1)}):
        rows = [row_of(name, *share, [3, 1] if name == "A" else [2, 4]) for name, share in step.items()]
        flat = on_device(naive_flat_batch(rows, 4), device)
        names = ["AB".index(name) for name, (_, count) in step.items() for _ in range(count)]
        flat.input_ids, flat.logits_indices = ids[names, flat.positions], torch.arange(len(names))
        expect_close(
            model.forward(flat) / expected.abs().max(),
            expected[names, flat.positions] / expected.abs().max(),
            rule="With your kernels the model computes the same as without them.",
            situation=f"the embedded model; each request's first token of the step and their number: {step}",
            hint="do the other tests of this file pass?",
        )
