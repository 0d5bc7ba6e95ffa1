"""Counts in numpy integers and answers with numpy booleans; free hit blocks come from the free queue."""

from collections.abc import Sequence

import numpy as np

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
        self.clamp, self.threshold = clamp, np.int64(long_prefill_token_threshold)
        self.max_model_len, self.chunks = np.int64(max_model_len), enable_chunked_prefill
        self.guard = admission_guard

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        wanted = np.int64(request.num_tokens - num_computed_tokens)
        if self.threshold:
            wanted = np.minimum(wanted, self.threshold)
        if request.status is not RequestStatus.RUNNING and not self.chunks and wanted > token_budget:
            return np.int64(0)
        if request.status is RequestStatus.RUNNING:
            wanted = np.minimum(wanted, self.max_model_len - 1 - num_computed_tokens)
        return np.minimum(wanted, token_budget)

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        if not self.guard:
            return np.True_
        known = np.array([request.num_tokens, *(other.num_tokens for other in running)])
        held = np.array([len(hit_blocks), *(len(kv.block_ids(other.request_id)) for other in running)])
        num_needed = np.ceil(known / kv.block_size).astype(int) - held
        num_idle = np.isin(np.array(hit_blocks, dtype=int), kv.free_block_ids()).sum()
        return num_needed.sum() + num_idle + len(running) <= kv.num_free_blocks

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return np.bool_(request.num_tokens - num_computed_tokens <= 0)
