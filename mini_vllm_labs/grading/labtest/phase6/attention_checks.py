"""Compares results of `paged_attention` in graded tests and reports differences."""

from collections.abc import Callable, Sequence
from dataclasses import fields

import torch
from torch import Tensor

from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.steps import FlatBatch, PagedAttention
from mini_vllm_labs.grading.labtest.expect import lab_failure
from mini_vllm_labs.grading.labtest.phase6.batches import as_the_model_gives_it, naive_flat_batch
from mini_vllm_labs.grading.plays.phase6_plays import describe_rows
from mini_vllm_labs.pictures.text import counted

RULE = "Each token attends to all tokens of its own request up to itself, and to no others."
QUESTION = "which tokens may this one see, with which K/V head, and where in this call's caches are their K and V?"
ALONE = (
    "a token at position 0 sees only itself, whatever its score is. With which query, K and scale do you compute "
    "the later tokens, and which tokens do they see?"
)
NOWHERE = 1000
"""V of every slot that no request has written."""
TOLERANCE = {torch.bfloat16: 0.1}
"""For sums of many V in bfloat16, which has 8 significant bits; 0.001 for other dtypes."""


def expect_attention(
    yours: object,
    expected: Tensor,
    situation: str,
    flat: FlatBatch,
    owners: Sequence[str],
    rule: str = RULE,
    hint: str = QUESTION,
) -> None:
    """Pass if the outputs agree; otherwise show the first difference, and what all wrong vectors have in common.

    `owners` are the request ids of the tokens in the row. If every expected vector ends with 1, V also ends with 1 in
    every slot, so that a token's last number is the sum of its weights.
    """
    if not isinstance(yours, Tensor) or yours.shape != expected.shape:
        lab_failure(
            rule="paged_attention returns one vector per token and query head: [T, heads, head_dim].",
            situation=situation,
            expected=tuple(expected.shape),
            yours=tuple(yours.shape) if isinstance(yours, Tensor) else repr(yours),
            hint="what is each dimension of your result, and how many tokens, query heads and numbers does it have?"
            if isinstance(yours, Tensor)
            else "does every path through your function return one tensor?",
        )
    # Summing in a different order changes the result slightly; a wrong token changes it far more.
    tolerance = TOLERANCE.get(yours.dtype, 1e-3)
    is_off = ~torch.isclose(yours.to(expected.dtype), expected, rtol=tolerance, atol=tolerance).all(dim=-1)
    if not is_off.any():
        return
    token, head = (int(number) for number in is_off.nonzero()[0])
    num_off = int(is_off.any(dim=-1).sum())
    facts, question = pattern_of(is_off, flat, owners)
    total = float(yours[token, head, -1])
    if yours[token, head].isnan().any():
        question = (
            "NaN comes from a softmax over fully masked scores, from infinity minus infinity, or from numbers that "
            "were never set. Where can one of these occur in your code?"
        )
    elif bool(torch.isclose(expected[..., -1], torch.ones(())).all()) and abs(total - 1) > tolerance:
        facts = [f"its last number is {total:.3g}, not 1: the sum of its weights, if V is what they weigh", *facts]
        question = (
            "over which tokens do you take the softmax, and what do you cut, mask or add after it? Do you weigh V, "
            "and do you write this token's result?"
        )
    lab_failure(
        rule=rule,
        situation=f"{situation}\n{num_off} of {len(is_off)} tokens differ, the first: token {token} of the row, "
        f"request {owners[token]}, position {int(flat.positions[token])}, query head {head}\n" + "\n".join(facts),
        expected=[round(float(number), 3) for number in expected[token, head]],
        yours=[round(float(number), 3) for number in yours[token, head]],
        hint=question or hint,
    )


def pattern_of(is_off: Tensor, flat: FlatBatch, owners: Sequence[str]) -> tuple[list[str], str]:
    """Describe what the wrong tokens and heads have in common, and add a question; both texts may be empty.

    `is_off` [T, heads] is True for the vectors that differ.
    """
    wrong, facts, question = is_off.any(dim=-1).tolist(), list[str](), ""
    name = owners[wrong.index(True)]
    rows = _rows_of(name, owners)
    num_right = [wrong[row] for row in rows].index(True)
    if num_right and all(wrong[row] for row in rows[num_right:]):
        position = int(flat.positions[rows[num_right]])
        facts.append(f"{name} is right up to position {position - 1} and wrong from {position} on")
        question = (
            f"position {position - 1} and all before it are right. What differs in your code from position "
            f"{position} on, after {counted(num_right, 'token')} of this step?"
        )
        question = ALONE if position == 1 else question
    positions = flat.positions.tolist()
    last_right = max((place for place, is_wrong in zip(positions, wrong, strict=True) if not is_wrong), default=-1)
    first_wrong = min(place for place, is_wrong in zip(positions, wrong, strict=True) if is_wrong)
    if not question and 0 <= last_right < first_wrong:
        facts.append(
            f"in all requests: tokens up to position {last_right} are right, those from {first_wrong} on wrong"
        )
        if first_wrong == last_right + 1:
            question = f"what does your code do differently when a token sees {first_wrong + 1} tokens?"
    if 0 in positions and all(is_wrong == (place > 0) for place, is_wrong in zip(positions, wrong, strict=True)):
        question = ALONE
    right = [one for one in dict.fromkeys(owners) if not any(map(wrong.__getitem__, _rows_of(one, owners)))]
    if right:
        facts.append(f"all is right for {', '.join(right[:8])}{', ...' if len(right) > 8 else ''}")
    by_head = is_off.any(dim=0).tolist()
    if not all(by_head):
        heads = [str(head) for head, is_wrong in enumerate(by_head) if is_wrong]
        facts.append(f"of {len(by_head)} query heads these differ: {', '.join(heads)}; the others are right everywhere")
        question = question or (
            "which K/V head do these query heads read (rule 7), with which query and scale, and where do you write it?"
        )
    return facts, question


def _rows_of(name: str, owners: Sequence[str]) -> list[int]:
    return [row for row, owner in enumerate(owners) if owner == name]


def expect_same_tensors(yours: FlatBatch, expected: FlatBatch, situation: str) -> None:
    """Fail unless the functions of tasks 6.1 and 6.2 built the right tensors for a step."""
    names = ("input_ids", "positions", "slot_mapping", "block_tables", "query_start_loc", "logits_indices")
    wrong = [name for name in names if not torch.equal(getattr(yours, name), getattr(expected, name))]
    if wrong:
        lab_failure(
            rule="This test runs all your parts: your functions of tasks 6.1 and 6.2 make the arguments of attention.",
            situation=situation,
            expected=f"{wrong[0]} {getattr(expected, wrong[0]).tolist()}",
            yours=f"{wrong[0]} {getattr(yours, wrong[0]).tolist()}",
            hint="which of your functions makes this argument, and do the tests of its task pass?",
        )


def expect_only_read(
    before: tuple[Sequence[Tensor], FlatBatch], caches: Sequence[Tensor], batch: FlatBatch, situation: str
) -> None:
    """Fail if `paged_attention` changed the caches or the batch."""
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
    dtype: torch.dtype = torch.float32,
    value_of: Callable[[str, int, int], float],
    values_are: str,
) -> None:
    """Check a step with K = 0, so that each token's output is the plain average of its visible V.

    `value_of(request_id, position, kv_head)` fills the requests' V; `values_are` describes it. In all other slots, V is
    1000. The last number of every V is 1: see `expect_attention`.
    """
    num_blocks = max(block_id for row in batch for block_id in row.block_ids) + 2
    key_cache = torch.zeros(num_blocks, block_size, num_kv_heads, 2, dtype=dtype)
    value_cache = torch.full_like(key_cache, NOWHERE)
    value_cache[..., 1] = 1
    flat, averages = naive_flat_batch(batch, block_size), []
    for row in batch:
        end, name = row.num_computed_tokens + row.num_scheduled_tokens, row.request.request_id
        values = torch.tensor([[value_of(name, p, head) for head in range(num_kv_heads)] for p in range(end)])
        positions = torch.arange(end)
        blocks = torch.tensor(row.block_ids)[positions // block_size]
        value_cache[blocks, positions % block_size, :, 0] = values.to(dtype)
        averages.append((values.double().cumsum(0) / (positions + 1)[:, None])[row.num_computed_tokens :])
    seen = torch.cat(averages).float().repeat_interleave(group, dim=1)
    expected = torch.stack([seen, torch.ones_like(seen)], dim=-1)
    situation = (
        f"{num_kv_heads * group} query heads, {num_kv_heads} K/V heads, {dtype}; all K are 0, so a token gets the "
        f"average of the V it sees;\nV is {values_are}, and {NOWHERE} in slots that no request has written; its last "
        f"number is 1 everywhere\n{describe_rows(batch, block_size)}"
    )
    query = as_the_model_gives_it(torch.ones_like(expected, dtype=dtype))
    yours = paged_attention(query, key_cache, value_cache, flat, 0.5)
    owners = [row.request.request_id for row in batch for _ in range(row.num_scheduled_tokens)]
    expect_attention(yours, expected, situation, flat, owners)
