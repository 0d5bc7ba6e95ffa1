"""Private names and keyword-only storing."""

from mini_vllm.core.request import Request, RequestStatus


class ChunkedPrefillPolicy:
    """Cuts long prompts into chunks, one chunk a step."""

    def __init__(
        self, clamp, long_prefill_token_threshold, max_model_len, enable_chunked_prefill=True, admission_guard=False
    ):
        self._cut = clamp
        self._settings = {
            "t": long_prefill_token_threshold,
            "m": max_model_len,
            "c": enable_chunked_prefill,
            "g": admission_guard,
        }

    def num_new_tokens(self, request, num_computed_tokens, token_budget):
        """Return how many tokens to compute next, after all caps; 0 means not in this step.

        The caps in order: the threshold, then for a request that waits while chunking is disabled all
        or nothing, then the budget, then for a running request the last position of the model.
        """
        t, m, c = (self._settings[k] for k in "tmc")
        want = request.num_tokens - num_computed_tokens
        if request.status is RequestStatus.RUNNING:
            return min(self._cut(want, token_budget, t), m - 1 - num_computed_tokens)
        if not c and self._cut(want, want, t) > token_budget:
            return 0
        return self._cut(want, token_budget, t)

    def admits(self, request, hit_blocks, running, kv):
        """Return whether a waiting request may come in now, as far as later chunks are concerned.

        Without the guard: always. With it: only if the free blocks hold all its tokens, after what the
        running requests still need for the tokens they have, and one block for each of them to grow into.
        """
        if not self._settings["g"]:
            return True
        idle = sum(1 for b in hit_blocks if b not in kv.ref_counts())
        need = -(request.num_tokens // -kv.block_size) - len(hit_blocks) + idle
        need += sum(-(r.num_tokens // -kv.block_size) - len(kv.block_ids(r.request_id)) + 1 for r in running)
        return kv.num_free_blocks - need >= 0

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether a request that will have `num_computed_tokens` after this step samples in it."""
        return num_computed_tokens == request.num_tokens
