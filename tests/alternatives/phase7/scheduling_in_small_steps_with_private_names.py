"""Private names, properties, one condition per line, drafts taken one by one."""

from mini_vllm.core.request import Request, RequestStatus


class SpeculativeScheduling:
    def __init__(self, num_speculative_tokens: int, drafter_has_kv_cache: bool) -> None:
        self._most = num_speculative_tokens
        self._writes_kv = drafter_has_kv_cache

    def num_lookahead_tokens(self, request: Request) -> int:
        if not self._writes_kv:
            return 0
        if request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED):
            return 0
        return self._most

    def usable_hit_blocks(self, hit_blocks: list[int]) -> list[int]:
        usable = list(hit_blocks)
        if self._writes_kv and usable:
            usable.pop()
        return usable

    def schedule_drafts(self, request: Request) -> list[int]:
        drafts, request.spec_token_ids = request.spec_token_ids, []
        scheduled: list[int] = []
        place = request.num_tokens + request.num_output_placeholders
        for token_id in drafts:
            if place >= request.num_computed_tokens:
                break
            scheduled.append(token_id)
            place += 1
        return scheduled

    def roll_back(self, request: Request, num_draft_tokens: int, num_sampled_tokens: int) -> None:
        num_accepted = num_sampled_tokens - 1
        num_rejected = num_draft_tokens - num_accepted
        if request.num_computed_tokens:
            request.num_computed_tokens = request.num_computed_tokens - num_rejected
        if request.num_output_placeholders:
            request.num_output_placeholders = request.num_output_placeholders - num_rejected
