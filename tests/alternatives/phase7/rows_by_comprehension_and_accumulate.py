"""Ends by accumulate, rows by a comprehension, kept tokens by zip and takewhile."""

from collections.abc import Sequence
from itertools import accumulate, takewhile

from mini_vllm.core.step import ScheduledRequest


def select_logits_rows(batch: Sequence[ScheduledRequest]) -> list[int]:
    ends = accumulate(scheduled.num_scheduled_tokens for scheduled in batch)
    return [
        end - offset
        for scheduled, end in zip(batch, ends, strict=True)
        if scheduled.needs_token
        for offset in range(len(scheduled.draft_token_ids) + 1, 0, -1)
    ]


def accept_drafts(draft_token_ids: Sequence[int], sampled_token_ids: Sequence[int]) -> list[int]:
    right = [*takewhile(lambda pair: pair[0] == pair[1], zip(draft_token_ids, sampled_token_ids, strict=False))]
    return list(sampled_token_ids)[: len(right) + 1]
