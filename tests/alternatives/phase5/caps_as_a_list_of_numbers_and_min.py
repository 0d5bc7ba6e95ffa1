"""Caps as a list of numbers and min."""

from collections.abc import Sequence

from mini_vllm.core.interfaces import Clamp, KVCacheManager
from mini_vllm.core.request import Request, RequestStatus


class ChunkedPrefillPolicy:
    """Cuts long prompts into chunks, one chunk a step."""

    def __init__(
        self,
        clamp: Clamp,
        long_prefill_token_threshold: int,
        max_model_len: int,
        enable_chunked_prefill: bool = True,
        admission_guard: bool = False,
    ) -> None:
        self.clamp = clamp
        self.threshold = long_prefill_token_threshold
        self.max_model_len = max_model_len
        self.enable_chunked_prefill = enable_chunked_prefill
        self.admission_guard = admission_guard

    def num_new_tokens(self, request, num_computed_tokens, token_budget):
        """Return how many tokens to compute next, after all caps; 0 means not in this step.

        The caps in order: the threshold, then for a request that waits while chunking is disabled all
        or nothing, then the budget, then for a running request the last position of the model.
        """
        wanted = len(request.all_token_ids) - num_computed_tokens
        caps = [wanted]
        if self.threshold > 0:
            caps.append(self.threshold)
        after_threshold = min(caps)
        running = request.status == RequestStatus.RUNNING
        if not running and not self.enable_chunked_prefill and after_threshold > token_budget:
            return 0
        caps.append(token_budget)
        if running:
            caps.append(self.max_model_len - 1 - num_computed_tokens)
        return max(0, min(caps))

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        """Return whether a waiting request may come in now, as far as later chunks are concerned.

        Without the guard: always. With it: only if the free blocks hold all its tokens, after what the
        running requests still need for the tokens they have, and one block for each of them to grow into.
        """
        if not self.admission_guard:
            return True
        idle_hits = set(hit_blocks) - kv.ref_counts().keys()
        num_needed = -(-request.num_tokens // kv.block_size) - len(hit_blocks) + len(idle_hits)
        num_promised = sum(
            -(-other.num_tokens // kv.block_size) - len(kv.block_ids(other.request_id)) + 1 for other in running
        )
        return num_needed + num_promised <= kv.num_free_blocks

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether a request that will have `num_computed_tokens` after this step samples in it."""
        return num_computed_tokens == request.num_tokens
