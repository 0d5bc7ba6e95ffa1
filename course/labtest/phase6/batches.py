"""Batches for the graded tests of phase 6, as text, and as tensors written down token by token."""

import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course.labtest.expect import Told, expect_equal
from course.labtest.moments import Living, told_of_memory, varied
from course.labtest.support import make_request
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.steps import FlatBatch

MAX_IDS, MAX_ROWS = 12, 8


def number_of(name: str) -> int:
    """Return 1 for request A, 2 for B, and the number of a name such as R17."""
    return int(name[1:]) if name[1:] else ord(name) - ord("A") + 1


def row_of(
    name: str,
    num_computed: int,
    num_scheduled: int,
    block_ids: Sequence[int],
    *,
    num_more: int = 0,
    num_outputs: int = 0,
    samples: bool = True,
    first_token: int = 0,
) -> ScheduledRequest:
    """Return one request's share of a step; `num_more` of its tokens are left for later steps.

    The last `num_outputs` of its tokens are generated ones. Request A has tokens from 100 on, B from 200 on.
    """
    num_prompt = num_computed + num_scheduled + num_more - num_outputs
    first_token = first_token or 100 * number_of(name)
    request = make_request(name, 0, token_ids=range(first_token, first_token + num_prompt))
    request.all_token_ids += range(first_token + 50, first_token + 50 + num_outputs)
    request.num_computed_tokens = num_computed + num_scheduled  # as the scheduler leaves it
    return ScheduledRequest(request, num_computed, num_scheduled, list(block_ids), samples)


def describe_rows(batch: Sequence[ScheduledRequest], block_size: int | None = None) -> str:
    lines = [] if block_size is None else [f"block_size={block_size}"]
    for row in batch[:MAX_ROWS]:
        end = row.num_computed_tokens + row.num_scheduled_tokens
        own = row.request.num_computed_tokens
        lines.append(
            f"{row.request.request_id}: num_computed={row.num_computed_tokens}, n={row.num_scheduled_tokens}, "
            f"tokens {ids_shown(row.request.all_token_ids[row.num_computed_tokens : end])}, "
            f"blocks {ids_shown(row.block_ids)}, {'needs a token' if row.needs_token else 'needs no token'}"
            + (f"; the request's own counter is {own}" if own != end else "")
        )
    if len(batch) > MAX_ROWS:
        lines.append(f"... and {len(batch) - MAX_ROWS} more requests")
    return "\n".join(lines)


def ids_shown(ids: Sequence[int]) -> str:
    if len(ids) <= MAX_IDS:
        return str(list(ids))
    return f"[{', '.join(map(str, ids[:3]))}, ..., {ids[-1]}] ({len(ids)})"


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
        row = row_of(
            name,
            num_computed,
            num_scheduled,
            block_ids,
            num_more=num_more,
            num_outputs=num_outputs,
            samples=num_more == 0,
            first_token=rng.choice([0, 65_530, 151_000]),
        )
        end = row.request.num_computed_tokens
        varied(row.request, rng)
        # The scheduler may have planned the next step already, or have preempted the request, or taken drafts back.
        row.request.num_computed_tokens = rng.choice([end, end, end + 1, end + 5, 0, max(0, end - 2)])
        rows.append(row)
    rng.shuffle(rows)
    return rows


class LivingRows:
    """Batches of requests that live on: their objects and the lists of their blocks change in place."""

    def __init__(self, seed: int) -> None:
        self.requests = Living(random.Random(seed))
        self.tables: dict[str, list[int]] = {}

    def now(self, batch: Sequence[ScheduledRequest]) -> list[ScheduledRequest]:
        for row in batch:
            self.tables.setdefault(row.request.request_id, [])[:] = row.block_ids
        return [
            replace(row, request=self.requests.now(row.request), block_ids=self.tables[row.request.request_id])
            for row in batch
        ]


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
    call: Callable[[Sequence[ScheduledRequest]], object],
    expected: object,
    block_size: int | None = None,
    *,
    function: str,
    rule: str,
    hint: Callable[[Any], str],
) -> None:
    """Compare what a call on a batch returns; the batch itself must not change. `hint` asks about a wrong answer."""
    situation, before, yours = describe_rows(batch, block_size), snapshot(batch), call(batch)
    told: Told = {"rule": rule, "situation": situation, "hint": hint(yours) if yours != expected else ""}
    if yours != expected:
        alone = "the same call, with copies of the requests"
        copies = [deepcopy(batch) for _ in range(30)]  # the last ones at addresses that no request has had before
        told = told_of_memory(told, lambda: call(copies[-1]), expected, alone)
    if isinstance(yours, dict) and isinstance(expected, dict) and len(expected) > MAX_ROWS:
        wrong = [name for name in expected if yours.get(name) != expected[name]][:MAX_ROWS]
        yours, expected = {name: yours.get(name) for name in wrong}, {name: expected[name] for name in wrong}
    expect_equal(yours, expected, **told)
    expect_equal(
        snapshot(batch),
        before,
        rule=f"{function} only reads the batch: its lists belong to the requests.",
        situation=situation,
        hint="which of your operations changes a list in place? `+=` on a list makes no new list.",
    )


def check_answers_apart(call: Callable[[Sequence[ScheduledRequest]], object], function: str) -> None:
    """Call a function for two steps; the answer for the first one must stay as it is."""
    steps = [[row_of("A", 0, 6, [7, 2])], [row_of("B", 4, 1, [3, 1]), row_of("A", 6, 1, [7, 2])]]
    first = call(steps[0])
    before = str(first)
    call(steps[1])
    expect_equal(
        str(first),
        before,
        rule=f"{function} returns new lists: those of a step are in use while the next one is planned.",
        situation=[f"{function} was called for one step, then for another; the answer for the first step:"],
        hint="which of your lists is the same one in every call?",
    )
