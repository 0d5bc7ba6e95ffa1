"""A property per question and frozen settings."""

from types import SimpleNamespace

from mini_vllm.core.request import Request, RequestStatus


class ChunkedPrefillPolicy:
    """Cuts long prompts into chunks, one chunk a step."""

    def __init__(
        self, clamp, long_prefill_token_threshold, max_model_len, enable_chunked_prefill=True, admission_guard=False
    ):
        self.settings = SimpleNamespace(**{k: v for k, v in locals().items() if k != "self"})

    def num_new_tokens(self, request, num_computed_tokens, token_budget):
        """Return how many tokens to compute next, after all caps; 0 means not in this step.

        The caps in order: the threshold, then for a request that waits while chunking is disabled all
        or nothing, then the budget, then for a running request the last position of the model.
        """
        s = self.settings
        want = request.num_tokens - num_computed_tokens
        after_threshold = s.clamp(want, want, s.long_prefill_token_threshold)
        granted = min(after_threshold, token_budget)
        if request.status is RequestStatus.RUNNING:
            granted = min(granted, s.max_model_len - num_computed_tokens - 1)
        elif granted != after_threshold and not self.chunking:
            granted = 0
        return granted

    def admits(self, request, hit_blocks, running, kv):
        """Return whether a waiting request may come in now, as far as later chunks are concerned.

        Without the guard: always. With it: only if the free blocks hold all its tokens, after what the
        running requests still need for the tokens they have, and one block for each of them to grow into.
        """
        if self.settings.admission_guard:
            size = kv.block_size
            counts = kv.ref_counts()
            future = [request.num_tokens, *(r.num_tokens for r in running)]
            total = sum((n + size - 1) // size for n in future) + len(running)
            total -= sum(len(kv.block_ids(r.request_id)) for r in running)
            total -= sum(b in counts for b in hit_blocks)
            return total <= kv.num_free_blocks
        return True

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether a request that will have `num_computed_tokens` after this step samples in it."""
        return num_computed_tokens == request.num_tokens

    @property
    def chunking(self):
        return self.settings.enable_chunked_prefill
