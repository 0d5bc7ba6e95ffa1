"""The drafts that were cut off are counted instead of those that were scheduled."""

from dataclasses import dataclass

from mini_vllm.core.request import Request, RequestStatus


@dataclass(slots=True)
class SpeculativeScheduling:
    num_speculative_tokens: int
    drafter_has_kv_cache: bool

    def num_lookahead_tokens(self, request: Request) -> int:
        return self.num_speculative_tokens * (self.drafter_has_kv_cache and request.status == RequestStatus.RUNNING)

    def usable_hit_blocks(self, hit_blocks: list[int]) -> list[int]:
        return hit_blocks[: len(hit_blocks) - self.drafter_has_kv_cache] if hit_blocks else []

    def schedule_drafts(self, request: Request) -> list[int]:
        num_missing = request.num_tokens + request.num_tokens_ahead - request.num_computed_tokens
        drafts = request.spec_token_ids.copy()
        request.spec_token_ids = []
        del drafts[max(0, len(drafts) - num_missing) :]
        return drafts

    def roll_back(self, request: Request, num_draft_tokens: int, num_sampled_tokens: int) -> None:
        surplus = num_draft_tokens + 1 - num_sampled_tokens
        preempted_since = request.num_computed_tokens == 0
        request.num_computed_tokens -= 0 if preempted_since else surplus
        request.num_output_placeholders = max(0, request.num_output_placeholders - surplus)
