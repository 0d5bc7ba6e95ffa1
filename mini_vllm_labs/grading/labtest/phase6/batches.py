"""Batches for the graded tests of phase 6, as tensors spelled out token by token."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.steps import FlatBatch


def naive_flat_batch(batch: Sequence[ScheduledRequest], block_size: int) -> FlatBatch:
    """Return a step's tensors, spelled out token by token."""
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
    """Return the same tensor [T, heads, head_dim] in the memory layout [heads, T, head_dim] of a transformers model."""
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)
