"""Random numbers for sampling a request's tokens."""

import hashlib
import struct

from mini_vllm.core.request import Request


def draw(request: Request, num_drafts: int = 0) -> float:
    """Return a random number, 0 <= draw < 1, for the request's token after `num_drafts` drafts.

    The number depends only on the seed and the token's position in the output, so drafts do not change the tokens.
    """
    return draw_twice(request, num_drafts)[0]


def draw_twice(request: Request, num_drafts: int) -> tuple[float, float]:
    """Return the number from `draw` and a second, independent number for the same position."""
    # Use a hash, because seeding a generator for each token would take several times as long.
    place = f"{request.seed}:{request.num_output_tokens + num_drafts}"
    first, second = struct.unpack("QQ", hashlib.blake2b(place.encode(), digest_size=16).digest())
    return (first >> 11) * 2**-53, (second >> 11) * 2**-53
