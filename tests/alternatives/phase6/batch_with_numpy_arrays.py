"""The flat batch is made of numpy arrays and tuples."""

from collections.abc import Sequence

import numpy as np

from mini_vllm.core.step import ScheduledRequest


def flatten_tokens(batch: Sequence[ScheduledRequest]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = np.array([row.num_scheduled_tokens for row in batch])
    starts = np.array([row.num_computed_tokens for row in batch])
    query_start_loc = np.concatenate([[0], counts.cumsum()])
    positions = np.arange(counts.sum()) - np.repeat(query_start_loc[:-1] - starts, counts)
    owners = np.repeat(np.arange(len(batch)), counts)
    pairs = zip(owners.tolist(), positions.tolist(), strict=True)
    input_ids = np.array([batch[i].request.all_token_ids[p] for i, p in pairs])
    return input_ids, positions, query_start_loc


def compute_slot_mapping(batch: Sequence[ScheduledRequest], block_size: int) -> np.ndarray:
    slots = []
    for row in batch:
        position = np.arange(row.num_computed_tokens, row.num_computed_tokens + row.num_scheduled_tokens)
        slots.append(np.array(row.block_ids)[position // block_size] * block_size + position % block_size)
    return np.concatenate(slots)


def pad_block_tables(batch: Sequence[ScheduledRequest], block_size: int) -> np.ndarray:
    counts = [(row.num_computed_tokens + row.num_scheduled_tokens - 1) // block_size + 1 for row in batch]
    tables = np.zeros((len(batch), max(counts)), dtype=np.int64)
    for index, (row, count) in enumerate(zip(batch, counts, strict=True)):
        tables[index, :count] = row.block_ids[:count]
    return tables


def select_logits_rows(batch: Sequence[ScheduledRequest]) -> tuple[np.int64, ...]:
    ends = np.cumsum([row.num_scheduled_tokens for row in batch])
    return tuple(ends[np.array([row.needs_token for row in batch], dtype=bool)] - 1)
