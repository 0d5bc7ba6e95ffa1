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

MOST_SLOTS = 4096
"""What one group copies out of the KV cache should still lie in the processor's own cache when it is attended to."""


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """N requests as a rectangle: `rows` [N, Q] are their tokens' places in the flat row, and `block_tables`
    [N, B] cut to the longest of them. A request with fewer tokens than Q repeats its last one; a shorter table
    goes on with what comes behind it, and nobody may look there.
    """

    rows: Tensor
    block_tables: Tensor


def group_requests(
    query_lens: Sequence[int], seq_lens: Tensor, block_tables: Tensor, block_size: int
) -> list[RequestGroup]:
    """Return all requests in groups: in each, both lengths differ by less than a factor of two.

    One loop over the groups, of which there are few; none over requests.
    """
    queries = np.asarray(query_lens, dtype=np.int64)
    if not len(queries):
        return []
    blocks = -(-seq_lens.numpy(force=True) // block_size)
    starts = np.cumsum(queries) - queries
    device = block_tables.device
    groups = []
    for members in _similar(queries, blocks, most_blocks=MOST_SLOTS // block_size):
        steps = np.arange(queries[members].max())
        rows = starts[members, None] + np.minimum(steps, queries[members, None] - 1)
        tables = block_tables[torch.from_numpy(members).to(device), : int(blocks[members].max())]
        groups.append(RequestGroup(torch.from_numpy(rows).to(device), tables))
    return groups


def _similar(queries: NDArray[np.int64], blocks: NDArray[np.int64], most_blocks: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of requests that go together."""
    sizes = np.stack([np.ceil(np.log2(queries)), np.ceil(np.log2(blocks))])
    _, group_of = np.unique(sizes, axis=1, return_inverse=True)
    for number in range(group_of.max() + 1):
        members = np.flatnonzero(group_of == number)
        at_once = max(1, most_blocks // int(blocks[members].max()))
        yield from np.split(members, range(at_once, len(members), at_once))
