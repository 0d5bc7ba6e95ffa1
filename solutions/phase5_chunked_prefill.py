"""Phase 5, reference: how many tokens of a request go into one step.

vLLM: `long_prefill_token_threshold` and `enable_chunked_prefill` in `Scheduler.schedule`. `admission_guard` is our
addition; vLLM 0.13.0 has nothing like it (later releases have `scheduler_reserve_full_isl` and `watermark`).
"""

from collections.abc import Sequence

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import Clamp, KVCacheManager
from mini_vllm.core.request import Request, RequestStatus


class ChunkedPrefillPolicy:
    """Splits long prompts into chunks, one chunk per step.

    The methods change neither the request, nor the lists they are given, nor the KV memory.
    """

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
        """Return how many tokens to compute next, after all caps; 0 means no tokens in this step.

        The caps apply in this order: the threshold; the all-or-nothing rule, if the request is not RUNNING and chunking
        is disabled; the budget. After these caps, a RUNNING request is capped at the model's last position.
        """
        # A waiting request's counter is 0 even if the prefix cache holds its first blocks. The argument includes that
        # hit, so count from the argument instead.
        num_uncomputed = request.num_tokens - num_computed_tokens
        num_granted = self.clamp(num_uncomputed, token_budget, self.threshold)
        # Nothing was cut off and the model's last position is far away, as in almost every step, so no other cap
        # applies.
        if num_granted == num_uncomputed < self.max_model_len - num_computed_tokens:
            return num_granted
        if request.status is RequestStatus.RUNNING:
            # The token at position max_model_len - 1 ends the request, so no step computes it. "All or nothing" is an
            # admission rule: refusing a running request would only leave its blocks idle.
            return min(num_granted, self.max_model_len - 1 - num_computed_tokens)
        # When chunking is disabled, the threshold may still cut a prompt, but the budget must not. A second clamp, with
        # a budget too large to matter, returns what the threshold by itself would allow.
        num_without_budget = self.clamp(num_uncomputed, num_uncomputed, self.threshold)
        if num_granted < num_without_budget and not self.enable_chunked_prefill:
            return 0
        return num_granted

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        """Return whether to admit a waiting request now, given the blocks its later chunks will need.

        Without the guard, always admit it. With the guard, admit it only if the free blocks cover all its tokens, what
        running requests still need for their current tokens, and one more block per running request.
        """
        # vLLM admits a request if its first chunk fits: `allocate_slots` checks that chunk, and a request that later
        # runs out of blocks is preempted. The guard delays the start of some requests so that fewer tokens are computed
        # twice.
        if not self.admission_guard:
            return True
        # A hit block that no request holds is in the free queue, and admission takes it out. Such a hit uses up a free
        # block, although nothing has to be computed for it.
        idle_hits = set(hit_blocks) - kv.ref_counts().keys()
        num_needed = cdiv(request.num_tokens, kv.block_size) - len(hit_blocks) + len(idle_hits)
        # Count block tables, not `num_computed_tokens`: a request served earlier in this step holds blocks for a chunk
        # that has not been computed yet. The extra block is for the request's next tokens. Round up for each request,
        # because two requests never share the last, partly filled block.
        num_promised = sum(
            cdiv(other.num_tokens, kv.block_size) - len(kv.block_ids(other.request_id)) + 1 for other in running
        )
        return num_needed + num_promised <= kv.num_free_blocks

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether the step generates a token for a request that will have `num_computed_tokens` computed tokens
        afterwards."""
        # `num_tokens` includes generated tokens. A resumed request that has recomputed its prompt still has known
        # tokens to compute; sampling there would replace a token that the user has already seen.
        return num_computed_tokens == request.num_tokens
