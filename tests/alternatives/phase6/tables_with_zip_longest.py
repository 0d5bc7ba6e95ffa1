"""Tables with zip_longest."""

import math
from itertools import zip_longest


def pad_block_tables(batch, block_size):
    """Return the block tables as a rectangle [R, longest], each cut to what its request has in the cache.

    Shorter tables are filled up with block 0, the null block.
    """
    cut = [r.block_ids[: math.ceil((r.num_computed_tokens + r.num_scheduled_tokens) / block_size)] for r in batch]
    return [list(c) for c in zip(*zip_longest(*cut, fillvalue=0), strict=False)]
