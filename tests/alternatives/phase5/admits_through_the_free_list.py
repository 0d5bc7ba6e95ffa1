"""Admits through the free list."""

from mini_vllm.core.interfaces import Clamp
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

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        """Return how many tokens to compute next, after all caps; 0 means not in this step.

        The caps in order: the threshold, then for a request that waits while chunking is disabled all
        or nothing, then the budget, then for a running request the last position of the model.
        """
        num_wanted = request.num_tokens - num_computed_tokens
        num_granted = self.clamp(num_wanted, token_budget, self.threshold)
        if request.status is RequestStatus.RUNNING:
            return min(num_granted, self.max_model_len - 1 - num_computed_tokens)
        num_without_budget = self.clamp(num_wanted, num_wanted, self.threshold)
        if num_granted < num_without_budget and not self.enable_chunked_prefill:
            return 0
        return num_granted

    def admits(self, request, hit_blocks, running, kv):
        """Return whether a waiting request may come in now, as far as later chunks are concerned.

        Without the guard: always. With it: only if the free blocks hold all its tokens, after what the
        running requests still need for the tokens they have, and one block for each of them to grow into.
        """
        if not self.admission_guard:
            return True

        def blocks(tokens):
            return -(-tokens // kv.block_size)

        free = kv.free_block_ids()
        usable = [b for b in free if b not in hit_blocks]
        need = blocks(request.num_tokens) - len(hit_blocks)
        promised = sum(max(0, blocks(r.num_tokens) - len(kv.block_ids(r.request_id))) + 1 for r in running)
        return need + promised <= len(usable)

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether a request that will have `num_computed_tokens` after this step samples in it."""
        return num_computed_tokens == request.num_tokens
