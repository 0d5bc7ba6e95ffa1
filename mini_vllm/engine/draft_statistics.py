"""What became of the drafts. (vLLM: `SpecDecodingStats` in `v1/spec_decode/metrics.py`.)"""

from collections.abc import Mapping, Sequence


class DraftStatistics:
    """Counts over all steps of an engine: `num_accepted_tokens_per_pos[i]` is how often draft i was accepted.

    `num_drafts` counts requests with drafts in a step, `num_draft_tokens` their drafts.
    """

    def __init__(self, num_speculative_tokens: int) -> None:
        self.num_drafts = 0
        self.num_draft_tokens = 0
        self.num_accepted_tokens_per_pos = [0] * num_speculative_tokens

    @property
    def num_accepted_tokens(self) -> int:
        return sum(self.num_accepted_tokens_per_pos)

    def observe(self, drafts: Mapping[str, Sequence[int]], sampled_token_ids: Mapping[str, Sequence[int]]) -> None:
        """Note the drafts that were verified in a step, and the tokens that it has sampled."""
        for request_id, draft_token_ids in drafts.items():
            if request_id in sampled_token_ids:
                self.num_drafts += 1
                self.num_draft_tokens += len(draft_token_ids)
                for position in range(len(sampled_token_ids[request_id]) - 1):
                    self.num_accepted_tokens_per_pos[position] += 1
