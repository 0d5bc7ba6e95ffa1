"""Takes the smallest of a list of caps, without the clamp of phase 1."""

import math
from collections.abc import Sequence

from mini_vllm.core.interfaces import Clamp, KVCacheManager
from mini_vllm.core.request import Request, RequestStatus


class ChunkedPrefillPolicy:
    def __init__(
        self,
        clamp: Clamp,
        long_prefill_token_threshold: int,
        max_model_len: int,
        enable_chunked_prefill: bool = True,
        admission_guard: bool = False,
    ) -> None:
        self.settings = (long_prefill_token_threshold or math.inf, max_model_len, enable_chunked_prefill)
        self.guard = admission_guard

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        threshold, max_model_len, may_chunk = self.settings
        caps = [request.num_tokens - num_computed_tokens, threshold]
        if request.status == RequestStatus.RUNNING:
            caps.append(max_model_len - 1 - num_computed_tokens)
        elif not may_chunk and min(caps) > token_budget:
            return 0
        return max(0, min(*caps, token_budget))

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        if self.guard:
            left = kv.num_free_blocks - sum(block_id in kv.free_block_ids() for block_id in hit_blocks)
            for other in running:
                left -= math.ceil(other.num_tokens / kv.block_size) - len(kv.block_ids(other.request_id)) + 1
            return left + len(hit_blocks) >= math.ceil(request.num_tokens / kv.block_size)
        return True

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return num_computed_tokens >= request.num_tokens
