"""Counts in numpy integers, answers with numpy booleans, cuts drafts in an array."""

from dataclasses import replace

import numpy as np


class PlaceholderScheduling:
    def __init__(self, num_speculative_tokens):
        self.most = np.int64(num_speculative_tokens)

    def is_surely_over(self, request):
        numbers = np.array([request.num_computed_tokens, 2, -request.num_output_placeholders])
        most = request.num_prompt_tokens + request.sampling_params.max_tokens
        return np.bool_(request.num_output_placeholders > 0) & (numbers.sum() >= most)

    def take_placeholders(self, request, num_draft_tokens):
        ahead = np.int64(request.num_output_placeholders) + num_draft_tokens
        if request.num_computed_tokens - request.num_tokens == ahead:
            request.num_output_placeholders = ahead + 1
            request.spec_token_ids = np.full(self.most, -1).tolist()

    def fill_placeholders(self, request, num_tokens):
        request.num_output_placeholders = np.subtract(request.num_output_placeholders, num_tokens)


def correct_share(scheduled, num_rejected_tokens, draft_token_ids):
    places = np.array(scheduled.draft_token_ids, dtype=int)
    drafts = np.array(draft_token_ids, dtype=int)[: places.size]
    return replace(
        scheduled,
        num_computed_tokens=np.int64(scheduled.num_computed_tokens) - num_rejected_tokens,
        num_scheduled_tokens=np.int64(scheduled.num_scheduled_tokens) - places.size + drafts.size,
        draft_token_ids=drafts.tolist(),
    )
