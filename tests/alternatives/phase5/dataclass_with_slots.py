"""Dataclass with slots."""

from dataclasses import dataclass
from typing import Any

from mini_vllm.core.request import RequestStatus


@dataclass(slots=True)
class ChunkedPrefillPolicy:
    clamp: Any
    long_prefill_token_threshold: int
    max_model_len: int
    enable_chunked_prefill: bool = True
    admission_guard: bool = False

    def num_new_tokens(self, request, num_computed_tokens, token_budget):
        wanted = request.num_tokens - num_computed_tokens
        granted = self.clamp(wanted, token_budget, self.long_prefill_token_threshold)
        if request.status is RequestStatus.RUNNING:
            return min(granted, self.max_model_len - 1 - num_computed_tokens)
        if self.enable_chunked_prefill:
            return granted
        whole = self.clamp(wanted, max(wanted, token_budget), self.long_prefill_token_threshold)
        return granted if granted == whole else 0

    def admits(self, request, hit_blocks, running, kv):
        if not self.admission_guard:
            return True
        held = kv.ref_counts()
        need = (request.num_tokens + kv.block_size - 1) // kv.block_size - len([b for b in hit_blocks if b in held])
        for other in running:
            need += (
                max(0, (other.num_tokens + kv.block_size - 1) // kv.block_size - len(kv.block_ids(other.request_id)))
                + 1
            )
        return need <= kv.num_free_blocks

    def should_sample(self, request, num_computed_tokens):
        return num_computed_tokens >= request.num_tokens
