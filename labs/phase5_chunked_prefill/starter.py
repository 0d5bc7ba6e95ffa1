"""Phase 5: how many tokens of a request go into one step.

Your `clamp` from phase 1 is passed in; you write the caps around it.
"""

from collections.abc import Sequence

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
        """Store the settings. `clamp(num_new, budget, threshold)` is a function; its threshold of 0 means no limit."""
        raise NotImplementedError("Phase 5, task 1: store the settings")

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        """Return how many tokens to compute next, after all caps; 0 means no tokens in this step.

        The caps apply in this order: the threshold; the all-or-nothing rule, if the request is not RUNNING and chunking
        is disabled; the budget. After these caps, a RUNNING request is capped at the model's last position.
        """
        raise NotImplementedError("Phase 5, tasks 1 and 2: num_new_tokens")

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        """Return whether to admit a waiting request now, given the blocks its later chunks will need.

        Without the guard, always admit it. With the guard, admit it only if the free blocks cover all its tokens, what
        running requests still need for their current tokens, and one more block per running request.
        """
        raise NotImplementedError("Phase 5, task 4: admits")

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether the step generates a token for a request that will have `num_computed_tokens` computed tokens
        afterwards."""
        raise NotImplementedError("Phase 5, task 3: should_sample")
