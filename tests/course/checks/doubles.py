"""What stands around `schedule_step` in the checks of handouts: a memory that counts, and a policy that clamps."""

from collections.abc import Iterable, Sequence

from mini_vllm.core.interfaces import Clamp, KVCacheManager
from mini_vllm.core.request import Request
from mini_vllm.core.request_queue import FCFSRequestQueue


def waiting_queue(requests: Iterable[Request]) -> FCFSRequestQueue:
    """Return a first-come-first-served queue of the requests."""
    queue = FCFSRequestQueue()
    for request in requests:
        queue.add_request(request)
    return queue


class SlotCountingKV:
    """A KV memory that only counts: `num_slots` slots, one per token. It also writes down every call."""

    block_size = 1

    def __init__(self, num_slots: int) -> None:
        self.num_usable_blocks = num_slots
        self.num_free_blocks = num_slots
        self.calls: list[str] = []
        self._num_held: dict[str, int] = {}

    def get_computed_blocks(self, request: Request) -> list[int]:
        return []

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        fits = num_new_tokens <= self.num_free_blocks
        self.calls.append(f"allocate_slots({request.request_id}, {num_new_tokens}) -> {'[...]' if fits else 'None'}")
        if not fits:
            return None
        self.num_free_blocks -= num_new_tokens
        self._num_held[request.request_id] = self._num_held.get(request.request_id, 0) + num_new_tokens
        return list(range(num_new_tokens))

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.calls.append(f"free({request.request_id})")
        self.num_free_blocks += self._num_held.pop(request.request_id, 0)

    def block_ids(self, request_id: str) -> list[int]:
        return list(range(self._num_held.get(request_id, 0)))

    def free_block_ids(self) -> list[int]:
        return list(range(self.num_free_blocks))

    def ref_counts(self) -> dict[int, int]:
        return {}


class ClampChunks:
    """A chunk policy that is nothing but the learner's `clamp` with a threshold."""

    def __init__(self, clamp: Clamp, threshold: int = 0) -> None:
        self.clamp = clamp
        self.threshold = threshold

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        return self.clamp(request.num_tokens - num_computed_tokens, token_budget, self.threshold)

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        return True

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return num_computed_tokens == request.num_tokens
