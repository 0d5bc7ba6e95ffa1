"""Copies the share and its lists, then changes the copy; a share with nothing to correct is returned as it is."""

from copy import copy


def correct_share(scheduled, num_rejected_tokens, draft_token_ids):
    if not num_rejected_tokens and not scheduled.draft_token_ids:
        return scheduled
    share = copy(scheduled)
    share.block_ids = list(scheduled.block_ids)
    share.draft_token_ids = []
    share.num_computed_tokens -= num_rejected_tokens
    for draft in draft_token_ids:
        if len(share.draft_token_ids) == len(scheduled.draft_token_ids):
            break
        share.draft_token_ids.append(draft)
    share.num_scheduled_tokens -= len(scheduled.draft_token_ids) - len(share.draft_token_ids)
    return share
