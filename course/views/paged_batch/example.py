"""The step of phase 6's handout: a chunk, a decode and a whole prompt in blocks of 4."""

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest

BLOCK_SIZE = 4


def example_batch() -> list[ScheduledRequest]:
    """Return A, B and C. Their token ids count from 100, 200 and 300."""
    return [
        share("A", 100, num_tokens=10, num_computed=4, num_scheduled=4, block_ids=[5, 2, 8], samples=False),
        share("B", 200, num_tokens=7, num_computed=6, num_scheduled=1, block_ids=[3, 6], samples=True),
        share("C", 300, num_tokens=3, num_computed=0, num_scheduled=3, block_ids=[7], samples=True),
    ]


def share(
    name: str,
    first_token: int,
    *,
    num_tokens: int,
    num_computed: int,
    num_scheduled: int,
    block_ids: list[int],
    samples: bool,
) -> ScheduledRequest:
    """Return one request's share, with token ids that count up from `first_token`."""
    request = Request(name, list(range(first_token, first_token + num_tokens)))
    return ScheduledRequest(request, num_computed, num_scheduled, block_ids, samples)
