"""Early returns, a helper per question, stand-ins in a tuple, and the share by its constructor."""

from mini_vllm.core.step import ScheduledRequest


def missing(request, num_draft_tokens):
    return request.num_tokens + request.num_output_placeholders + num_draft_tokens - request.num_computed_tokens


class PlaceholderScheduling:
    def __init__(self, num_speculative_tokens):
        self.stand_ins = (-1,) * num_speculative_tokens

    def is_surely_over(self, request):
        if not request.num_output_placeholders:
            return False
        left = request.num_prompt_tokens + request.sampling_params.max_tokens
        left -= request.num_computed_tokens
        left += request.num_output_placeholders
        return not left > 2

    def take_placeholders(self, request, num_draft_tokens):
        if missing(request, num_draft_tokens):
            return
        request.spec_token_ids = self.stand_ins
        request.num_output_placeholders = sum((request.num_output_placeholders, num_draft_tokens, 1))

    def fill_placeholders(self, request, num_tokens):
        request.num_output_placeholders = request.num_output_placeholders - num_tokens


def correct_share(scheduled, num_rejected_tokens, draft_token_ids):
    places = len(scheduled.draft_token_ids)
    num_drafts = min(places, len(draft_token_ids))
    return ScheduledRequest(
        scheduled.request,
        scheduled.num_computed_tokens - num_rejected_tokens,
        scheduled.num_scheduled_tokens - (places - num_drafts),
        scheduled.block_ids,
        scheduled.needs_token,
        tuple(draft_token_ids[:num_drafts]),
    )
