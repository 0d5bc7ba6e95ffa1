"""Requests of similar lengths, put together so that one call attends for many and little of it is padding.

vLLM leaves this to its kernels, which take every request as long as it is. Kernels that we can call from
Python want rectangles.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]
MOST_SLOTS = 4096
"""What one group copies out of the KV cache should still lie in the processor's own cache when it is attended to."""
MOST_QUERIES = 128
"""A longer chunk is cut into pieces: the tokens of a piece need no keys of those behind it."""
MOST_WASTE = 512
"""Pairs of a query and a key that a group may compute for nothing, before one more group is made instead."""


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """N requests, or pieces of long chunks, as a rectangle of Q tokens each that look at B blocks, S slots.

    `rows` [N, Q] are their tokens' places in the flat row; who has fewer than Q repeats his last one.
    `block_tables` [N, B] are cut to the longest; a shorter table goes on with what comes behind it, and nobody
    may look there. `mask` [N, 1, Q, S] float32 says so: 0 where a token may look, minus infinity elsewhere.
    """

    rows: Tensor
    block_tables: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Chunks of at most MOST_QUERIES tokens: whose they are, where in the flat row, and the blocks they look at."""

    owners: Integers
    starts: Integers
    lengths: Integers
    blocks: Integers


def group_requests(
    query_lens: Sequence[int], seq_lens: Tensor, block_tables: Tensor, positions: Tensor, block_size: int
) -> list[RequestGroup]:
    """Return all tokens of a step in groups. One loop over the groups, of which there are few; none over requests."""
    if not query_lens:
        return []
    pieces = _cut(np.asarray(query_lens, dtype=np.int64), seq_lens.numpy(force=True), block_size)
    device = block_tables.device
    groups = []
    for members in _similar(pieces, MOST_SLOTS // block_size, MOST_WASTE / block_size):
        lengths, num_blocks = pieces.lengths[members, None], int(pieces.blocks[members].max())
        places = pieces.starts[members, None] + np.minimum(np.arange(lengths.max()), lengths - 1)
        rows, owners = (torch.from_numpy(numbers).to(device) for numbers in (places, pieces.owners[members]))
        hidden = torch.arange(num_blocks * block_size, device=device) > positions[rows][:, None, :, None]
        mask = torch.zeros(hidden.shape, device=device).masked_fill_(hidden, -torch.inf)
        groups.append(RequestGroup(rows, block_tables[owners, :num_blocks], mask))
    return groups


def _cut(queries: Integers, seq_lens: Integers, block_size: int) -> _Pieces:
    """Cut long chunks; what is short is one piece."""
    counts = -(-queries // MOST_QUERIES)
    owners = np.repeat(np.arange(len(queries)), counts)
    offsets = (np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)) * MOST_QUERIES
    lengths = np.minimum(queries[owners] - offsets, MOST_QUERIES)
    num_seen = (seq_lens - queries)[owners] + offsets + lengths
    return _Pieces(owners, (np.cumsum(queries) - queries)[owners] + offsets, lengths, -(-num_seen // block_size))


def _similar(pieces: _Pieces, most_blocks: int, most_waste: float) -> Iterator[Integers]:
    """Yield the numbers of pieces that go together: the longest first, as many as fit and waste little."""
    order = np.lexsort((pieces.blocks, pieces.lengths))[::-1]
    while len(order):
        lengths, blocks = pieces.lengths[order], pieces.blocks[order]
        counts, most = np.arange(1, len(order) + 1), np.maximum.accumulate(blocks)
        waste = counts * lengths[0] * most - np.cumsum(lengths * blocks)
        fits = (waste <= most_waste) & (counts * most <= most_blocks)
        num_members = max(1, int(fits.sum()))
        yield order[:num_members]
        order = order[num_members:]
