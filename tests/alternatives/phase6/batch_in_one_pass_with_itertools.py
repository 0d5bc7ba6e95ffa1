"""Generators, accumulate and zip_longest instead of growing lists."""

from collections.abc import Sequence
from itertools import accumulate, chain, compress, zip_longest

from mini_vllm.core.step import ScheduledRequest


def span(row: ScheduledRequest) -> range:
    return range(row.num_computed_tokens, row.num_computed_tokens + row.num_scheduled_tokens)


def flatten_tokens(batch: Sequence[ScheduledRequest]) -> tuple[tuple[int, ...], ...]:
    ids = (row.request.all_token_ids[position] for row in batch for position in span(row))
    positions = chain.from_iterable(map(span, batch))
    return tuple(ids), tuple(positions), tuple(accumulate((len(span(row)) for row in batch), initial=0))


def compute_slot_mapping(batch: Sequence[ScheduledRequest], block_size: int) -> tuple[int, ...]:
    return tuple(slot for row in batch for slot in slots_of(row, block_size)[span(row).start : span(row).stop])


def slots_of(row: ScheduledRequest, block_size: int) -> list[int]:
    return [block_id * block_size + place for block_id in row.block_ids for place in range(block_size)]


def pad_block_tables(batch: Sequence[ScheduledRequest], block_size: int) -> list[tuple[int, ...]]:
    tables = [row.block_ids[: (span(row).stop + block_size - 1) // block_size] for row in batch]
    return list(zip(*zip_longest(*tables, fillvalue=0), strict=True))


def select_logits_rows(batch: Sequence[ScheduledRequest]) -> list[int]:
    last = (end - 1 for end in accumulate(row.num_scheduled_tokens for row in batch))
    return list(compress(last, (row.needs_token for row in batch)))
