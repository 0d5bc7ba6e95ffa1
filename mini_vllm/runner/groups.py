"""Groups requests of similar lengths, so that one attention call handles many with little padding.

vLLM's kernels handle requests of different lengths in one launch and need no groups. torch's attention needs
rectangles: the same number of queries and of keys for every request in a call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]
# small enough for a group's copied K and V to stay in the CPU's cache until attention reads them
MAX_GROUP_SLOTS = 4096
MAX_PIECE_QUERIES = 128  # a longer chunk is split into pieces, because a piece's tokens do not attend to later pieces
MAX_WASTED_PAIRS = 512  # above this many query-key pairs of padding, a new group is cheaper


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """A rectangle of N requests, or pieces of long chunks, with Q tokens each, over B blocks (S slots).

    `rows` [N, Q] int64 are the tokens' rows in the flat batch; a request with fewer than Q tokens repeats its last row.
    `block_tables` [N, B] int64 are cut to the longest table; shorter ones keep the padding of the batch's table. `mask`
    [N, 1, Q, S] float32 is 0 where a token may attend and minus infinity elsewhere.
    """

    rows: Tensor
    block_tables: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Chunks of at most `MAX_PIECE_QUERIES` tokens: their requests, start rows, lengths and numbers of blocks read."""

    requests: Integers
    starts: Integers
    lengths: Integers
    blocks: Integers


def group_requests(
    query_lens: Sequence[int], seq_lens: Sequence[int], block_tables: Tensor, positions: Tensor, block_size: int
) -> list[RequestGroup]:
    """Group all tokens of a step.

    The lengths are Python integers, because reading them from a GPU would mean waiting for it. The loop runs over the
    few groups, not over the requests.
    """
    if not query_lens:
        return []
    pieces = _cut(np.asarray(query_lens, dtype=np.int64), np.asarray(seq_lens, dtype=np.int64), block_size)
    device = block_tables.device
    groups = []
    for members in _similar(pieces, MAX_GROUP_SLOTS // block_size, MAX_WASTED_PAIRS / block_size):
        lengths, num_blocks = pieces.lengths[members, None], int(pieces.blocks[members].max())
        # Repeating the last token fills the rectangle; its identical results are written to the same row.
        places = pieces.starts[members, None] + np.minimum(np.arange(lengths.max()), lengths - 1)
        rows, requests = (torch.from_numpy(numbers).to(device) for numbers in (places, pieces.requests[members]))
        hidden = torch.arange(num_blocks * block_size, device=device) > positions[rows][:, None, :, None]
        mask = torch.zeros(hidden.shape, device=device).masked_fill_(hidden, -torch.inf)
        groups.append(RequestGroup(rows, block_tables[requests, :num_blocks], mask))
    return groups


def _cut(queries: Integers, seq_lens: Integers, block_size: int) -> _Pieces:
    """Split long chunks into pieces; a short chunk is a single piece."""
    counts = -(-queries // MAX_PIECE_QUERIES)
    owners = np.repeat(np.arange(len(queries)), counts)
    offsets = (np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)) * MAX_PIECE_QUERIES
    lengths = np.minimum(queries[owners] - offsets, MAX_PIECE_QUERIES)
    num_seen = (seq_lens - queries)[owners] + offsets + lengths
    return _Pieces(owners, (np.cumsum(queries) - queries)[owners] + offsets, lengths, -(-num_seen // block_size))


def _similar(pieces: _Pieces, max_blocks: int, max_waste: float) -> Iterator[Integers]:
    """Yield each group as the indices of its pieces, longest first; pieces join a group while the padding is small."""
    order = np.lexsort((pieces.blocks, pieces.lengths))[::-1]
    while len(order):
        lengths, blocks = pieces.lengths[order], pieces.blocks[order]
        # Entry i describes a group of the first i + 1 pieces: a rectangle as wide as the widest of them.
        counts, widths = np.arange(1, len(order) + 1), np.maximum.accumulate(blocks)
        waste = counts * lengths[0] * widths - np.cumsum(lengths * blocks)
        fits = (waste <= max_waste) & (counts * widths <= max_blocks)
        num_members = max(1, int(fits.sum()))
        yield order[:num_members]
        order = order[num_members:]
