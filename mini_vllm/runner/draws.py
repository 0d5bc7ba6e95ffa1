"""The random numbers of a request's tokens."""

import hashlib
import struct

from mini_vllm.core.request import Request


def draw(request: Request, num_drafts: int = 0) -> float:
    """Return the random number, 0 <= draw < 1, for a request's next token, or for the one after `num_drafts` drafts.

    It depends only on the seed and the token's place in the answer, so a token is the same with and without drafts.
    """
    return draw_twice(request, num_drafts)[0]


def draw_twice(request: Request, num_drafts: int) -> tuple[float, float]:
    """Return the number of `draw`, and a second one for the same place."""
    # A hash: seeding a generator for each token takes several times as long.
    place = f"{request.seed}:{request.num_output_tokens + num_drafts}"
    first, second = struct.unpack("QQ", hashlib.blake2b(place.encode(), digest_size=16).digest())
    return (first >> 11) * 2**-53, (second >> 11) * 2**-53
