"""numpy integers for rows; the number of right drafts by a cumulative product."""

from collections.abc import Sequence

import numpy as np

from mini_vllm.core.step import ScheduledRequest


def select_logits_rows(batch: Sequence[ScheduledRequest]) -> list[int]:
    sizes = np.array([scheduled.num_scheduled_tokens for scheduled in batch])
    parts = [
        np.arange(end - 1 - len(scheduled.draft_token_ids), end)
        for scheduled, end in zip(batch, np.cumsum(sizes), strict=True)
        if scheduled.needs_token
    ]
    return list(np.concatenate(parts)) if parts else []


def accept_drafts(draft_token_ids: Sequence[int], sampled_token_ids: Sequence[int]) -> list[int]:
    drafts, sampled = np.array(draft_token_ids), np.array(sampled_token_ids)
    num_right = int(np.cumprod(drafts == sampled[: len(drafts)]).sum())
    return [*sampled[: num_right + 1]]
