"""The guard counts in slots and answers as soon as it knows; sampling looks at what is left to compute."""

from collections.abc import Sequence

from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request
from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy as Given


class ChunkedPrefillPolicy(Given):
    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        if not self.admission_guard:
            return True
        size, held = kv.block_size, kv.ref_counts()
        slots = kv.num_free_blocks * size
        for other in running:
            slots -= round_up(other.num_tokens, size) - size * len(kv.block_ids(other.request_id)) + size
        for block_id in hit_blocks:
            slots += size if held.get(block_id, 0) else 0
        return round_up(request.num_tokens, size) <= slots

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return not request.all_token_ids[num_computed_tokens:]


def round_up(num_tokens: int, size: int) -> int:
    return num_tokens + -num_tokens % size
