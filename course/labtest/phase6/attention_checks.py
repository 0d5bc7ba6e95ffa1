"""What the graded tests of `paged_attention` compare, and how they report it."""

from collections.abc import Callable, Sequence
from dataclasses import fields

import torch
from torch import Tensor

from course.labtest.expect import lab_failure
from course.labtest.phase6.batches import as_the_model_gives_it, describe_rows, naive_flat_batch
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.steps import FlatBatch, PagedAttention

RULE = "Each token attends to its own request's tokens up to itself, and to nothing else."
QUESTION = "which tokens may this one see, of which K/V head, and where do their K and V lie?"
NOWHERE = 1000  # V of every slot that no request has written


def expect_attention(
    yours: object,
    expected: Tensor,
    situation: str,
    flat: FlatBatch,
    owners: Sequence[str],
    rule: str = RULE,
    hint: str = QUESTION,
) -> None:
    """Continue if the outputs agree; else show the first token and head that differ.

    `owners` are the request ids of the tokens in the row.
    """
    if not isinstance(yours, Tensor) or yours.shape != expected.shape:
        lab_failure(
            rule="paged_attention returns one vector per token and query head: [T, heads, head_dim].",
            situation=situation,
            expected=tuple(expected.shape),
            yours=tuple(yours.shape) if isinstance(yours, Tensor) else repr(yours),
            hint="which dimension is which after your last transpose or reshape?",
        )
    # Sums in another order differ a little in float32, and a wrong token by far more.
    is_off = ~torch.isclose(yours.to(expected.dtype), expected, rtol=1e-3, atol=1e-3).all(dim=-1)
    if not is_off.any():
        return
    token, head = (int(number) for number in is_off.nonzero()[0])
    num_off = int(is_off.any(dim=-1).sum())
    lab_failure(
        rule=rule,
        situation=f"{situation}\n{num_off} of {len(is_off)} tokens differ, the first: token {token} of the row, "
        f"request {owners[token]}, position {int(flat.positions[token])}, query head {head}",
        expected=[round(float(number), 3) for number in expected[token, head]],
        yours=[round(float(number), 3) for number in yours[token, head]],
        hint=hint,
    )


def expect_same_tensors(yours: FlatBatch, expected: FlatBatch, situation: str) -> None:
    """Continue if the functions of the tasks 6.1 and 6.2 made the tensors of a step as they should."""
    names = ("input_ids", "positions", "slot_mapping", "block_tables", "query_start_loc", "logits_indices")
    wrong = [name for name in names if not torch.equal(getattr(yours, name), getattr(expected, name))]
    if wrong:
        lab_failure(
            rule="This test runs all your parts: your functions of the tasks 6.1 and 6.2 make what attention is given.",
            situation=situation,
            expected=f"{wrong[0]} {getattr(expected, wrong[0]).tolist()}",
            yours=f"{wrong[0]} {getattr(yours, wrong[0]).tolist()}",
            hint="which of your functions makes this, and do the tests of its task pass?",
        )


def expect_only_read(
    before: tuple[Sequence[Tensor], FlatBatch], caches: Sequence[Tensor], batch: FlatBatch, situation: str
) -> None:
    """Continue if the caches and the batch are as they were before `paged_attention` was called."""
    pairs = dict(zip(("K cache", "V cache"), zip(before[0], caches, strict=True), strict=True))
    pairs |= {
        part.name: (getattr(before[1], part.name), getattr(batch, part.name)) for part in fields(batch) if part.init
    }
    changed = [
        name
        for name, (old, new) in pairs.items()
        if not (torch.equal(old, new) if isinstance(old, Tensor) else old == new)
    ]
    if changed:
        lab_failure(
            rule="paged_attention only reads the caches and the batch: the next layer gets the same batch.",
            situation=situation,
            expected="nothing has changed",
            yours=f"changed: {', '.join(changed)}",
            hint="which of your operations works in place, and on which tensor?",
        )


def check_averages(
    paged_attention: PagedAttention,
    batch: Sequence[ScheduledRequest],
    *,
    block_size: int = 4,
    num_kv_heads: int = 1,
    group: int = 1,
    value_of: Callable[[str, int, int], float],
    values_are: str,
) -> None:
    """Check a step in which all K are 0, so that each token gets the plain average of the V that it may see.

    `value_of(request_id, position, kv_head)` fills the V of the requests; `values_are` describes it. In all other
    slots V is 1000.
    """
    num_blocks = max(block_id for row in batch for block_id in row.block_ids) + 2
    key_cache = torch.zeros(num_blocks, block_size, num_kv_heads, 2)
    value_cache = torch.full_like(key_cache, NOWHERE)
    flat = naive_flat_batch(batch, block_size)
    expected = torch.zeros(len(flat.positions), num_kv_heads * group, 2)
    owners = [row for row in batch for _ in range(row.num_scheduled_tokens)]
    for row in batch:
        for position in range(row.num_computed_tokens + row.num_scheduled_tokens):
            for head in range(num_kv_heads):
                block, place = row.block_ids[position // block_size], position % block_size
                value_cache[block, place, head] = value_of(row.request.request_id, position, head)
    for token, row in enumerate(owners):
        for head in range(num_kv_heads * group):
            seen = range(int(flat.positions[token]) + 1)
            values = [value_of(row.request.request_id, earlier, head // group) for earlier in seen]
            expected[token, head] = sum(values) / len(values)
    situation = (
        f"{num_kv_heads * group} query heads, {num_kv_heads} K/V heads; all K are 0, so a token gets the average "
        f"of the V it sees;\nV is {values_are}, and {NOWHERE} in slots that no request has written\n"
        f"{describe_rows(batch, block_size)}"
    )
    yours = paged_attention(as_the_model_gives_it(torch.ones_like(expected)), key_cache, value_cache, flat, 0.5)
    expect_attention(yours, expected, situation, flat, [row.request.request_id for row in owners])
