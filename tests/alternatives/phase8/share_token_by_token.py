"""Walks over the planned tokens one by one: known ones stay, a stand-in becomes the next draft while there are any."""

from dataclasses import replace


def correct_share(scheduled, num_rejected_tokens, draft_token_ids):
    coming, kept, num_tokens = iter(draft_token_ids), [], 0
    first_stand_in = scheduled.num_scheduled_tokens - len(scheduled.draft_token_ids)
    for place in range(scheduled.num_scheduled_tokens):
        if place >= first_stand_in:
            draft = next(coming, None)
            if draft is None:
                break
            kept.append(draft)
        num_tokens += 1
    start = scheduled.num_computed_tokens
    for _ in range(num_rejected_tokens):
        start -= 1
    return replace(scheduled, num_computed_tokens=start, num_scheduled_tokens=num_tokens, draft_token_ids=kept)
