"""Batches for the graded tests of phase 6, as text, and as tensors written down token by token."""

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from course.labtest.expect import expect_equal
from course.labtest.support import make_request
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.steps import FlatBatch


def row_of(
    name: str,
    num_computed: int,
    num_scheduled: int,
    block_ids: Sequence[int],
    *,
    num_more: int = 0,
    num_outputs: int = 0,
    samples: bool = True,
) -> ScheduledRequest:
    """Return one request's share of a step; `num_more` of its tokens are left for later steps.

    The last `num_outputs` of its tokens are generated ones. Request A has tokens from 100 on, B from 200 on.
    """
    num_prompt = num_computed + num_scheduled + num_more - num_outputs
    first_token = 100 * (ord(name) - ord("A") + 1)
    request = make_request(name, 0, token_ids=range(first_token, first_token + num_prompt))
    request.all_token_ids += range(first_token + 50, first_token + 50 + num_outputs)
    request.num_computed_tokens = num_computed + num_scheduled  # as the scheduler leaves it
    return ScheduledRequest(request, num_computed, num_scheduled, list(block_ids), samples)


def describe_rows(batch: Sequence[ScheduledRequest], block_size: int | None = None) -> str:
    lines = [] if block_size is None else [f"block_size={block_size}"]
    for row in batch:
        end = row.num_computed_tokens + row.num_scheduled_tokens
        lines.append(
            f"{row.request.request_id}: num_computed={row.num_computed_tokens}, n={row.num_scheduled_tokens}, "
            f"tokens {row.request.all_token_ids[row.num_computed_tokens : end]}, blocks {row.block_ids}, "
            f"{'needs a token' if row.needs_token else 'needs no token'}"
        )
    return "\n".join(lines)


def random_rows(rng: random.Random, block_size: int) -> list[ScheduledRequest]:
    """Return decodes, chunks and whole prompts in any order, on shuffled blocks; some tables have spare blocks."""
    unused = list(range(1, 200))
    rng.shuffle(unused)
    rows: list[ScheduledRequest] = []
    for name in "ABCDE"[: rng.randint(1, 5)]:
        num_computed = rng.choice([0, block_size - 1, block_size, rng.randint(1, 12)])
        num_scheduled = rng.choice([1, 1, block_size, rng.randint(1, 9)])
        num_more = rng.choice([0, 0, rng.randint(1, 6)])
        num_outputs = rng.randint(0, num_computed)
        num_blocks = cdiv(num_computed + num_scheduled + num_more, block_size) + rng.choice([0, 0, 1])
        block_ids = [unused.pop() for _ in range(num_blocks)]
        samples = num_more == 0
        rows.append(
            row_of(
                name,
                num_computed,
                num_scheduled,
                block_ids,
                num_more=num_more,
                num_outputs=num_outputs,
                samples=samples,
            )
        )
    rng.shuffle(rows)
    return rows


def naive_flat_batch(batch: Sequence[ScheduledRequest], block_size: int) -> FlatBatch:
    """Return the tensors of a step, written down token by token."""
    input_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    starts = [0]
    logits_rows: list[int] = []
    tables: list[list[int]] = []
    for row in batch:
        for position in range(row.num_computed_tokens, row.num_computed_tokens + row.num_scheduled_tokens):
            input_ids.append(row.request.all_token_ids[position])
            positions.append(position)
            slots.append(row.block_ids[position // block_size] * block_size + position % block_size)
        starts.append(len(positions))
        if row.needs_token:
            logits_rows.append(len(positions) - 1)
        tables.append([block for index, block in enumerate(row.block_ids) if index * block_size <= positions[-1]])
    longest = max(len(table) for table in tables)
    return FlatBatch(
        input_ids=torch.tensor(input_ids),
        positions=torch.tensor(positions),
        slot_mapping=torch.tensor(slots),
        query_start_loc=torch.tensor(starts),
        seq_lens=torch.tensor([row.num_computed_tokens + row.num_scheduled_tokens for row in batch]),
        block_tables=torch.tensor([table + [0] * (longest - len(table)) for table in tables]),
        logits_indices=torch.tensor(logits_rows, dtype=torch.int64),
        query_lens=[row.num_scheduled_tokens for row in batch],
        seq_lens_cpu=[row.num_computed_tokens + row.num_scheduled_tokens for row in batch],
        block_size=block_size,
    )


def as_the_model_gives_it(tensor: Tensor) -> Tensor:
    """Return an equal tensor [T, heads, head_dim] in the memory layout [heads, T, head_dim] of a transformers model."""
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


def snapshot(batch: Sequence[ScheduledRequest]) -> dict[str, object]:
    """Return a copy of all that a function could change in a batch, by name."""
    found: dict[str, object] = {"requests": [row.request.request_id for row in batch]}
    for row in batch:
        name = row.request.request_id
        found |= {
            f"{name}: block_ids": list(row.block_ids),
            f"{name}: tokens": list(row.request.all_token_ids),
            f"{name}: counters": (row.num_computed_tokens, row.num_scheduled_tokens, row.request.num_computed_tokens),
        }
    return found


def check_on(
    batch: Sequence[ScheduledRequest],
    call: Callable[[], object],
    expected: object,
    block_size: int | None = None,
    *,
    function: str,
    rule: str,
    hint: str,
) -> None:
    """Compare what a call on a batch returns; the batch itself must not change."""
    situation, before = describe_rows(batch, block_size), snapshot(batch)
    expect_equal(call(), expected, situation=situation, rule=rule, hint=hint)
    expect_equal(
        snapshot(batch),
        before,
        rule=f"{function} only reads the batch: its lists belong to the requests.",
        situation=situation,
        hint="which of your operations changes a list in place? `+=` on a list makes no new list.",
    )
