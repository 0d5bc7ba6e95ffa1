"""Phase 5: how much of a request goes into one step.

Your `clamp` of phase 1 is handed to you; the caps around it are what this phase is about.
"""

from collections.abc import Sequence

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.seams.interfaces import Clamp, KVCacheManager


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
        # Keep all five in `self`. `clamp` is a function: `self.clamp(num_new, budget, threshold)` calls it.
        raise NotImplementedError("Phase 5, task 1: keep the settings")

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        """Return how many tokens to compute next, after all caps; 0 means not in this step.

        The caps in order: the threshold, then for a request that waits while chunking is disabled all
        or nothing, then the budget, then for a running request the last position of the model.
        """
        # Task 5.1: it wants what it has not computed. `self.clamp` cuts that to threshold and budget. A running
        # request may not go past position max_model_len - 2: at most max_model_len - 1 - computed.
        # Task 5.2: a request that is not RUNNING, while chunking is disabled: if the *budget* has cut what the
        # threshold alone would have left, 0.
        raise NotImplementedError("Phase 5, tasks 1 and 2: num_new_tokens")

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        """Return whether a waiting request may come in now, as far as later chunks are concerned.

        Without the guard: always. With it: only if the free blocks hold all its tokens, after what the
        running requests still need for the tokens they have, and one block for each of them to grow into.
        """
        # Count in blocks:
        # - needed: all tokens of the request, minus hit blocks, plus those hit blocks that are free (nobody in
        #   `kv.ref_counts()` holds them), because they leave the free queue;
        # - promised: for each running request what its known tokens still need beyond its table, plus one.
        raise NotImplementedError("Phase 5, task 4: admits")

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether a request that will have `num_computed_tokens` after this step samples in it."""
        # Logits are useful only behind the last known token.
        raise NotImplementedError("Phase 5, task 3: should_sample")
