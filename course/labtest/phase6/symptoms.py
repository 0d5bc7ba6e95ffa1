"""Mistakes of the tasks 6.1 and 6.2 that are visible in the numbers. Looked for only after a test has failed."""

from collections.abc import Sequence

from mini_vllm.core.step import ScheduledRequest

WHICH_TOKENS = "which of `request.all_token_ids` does this step compute: from which one, and how many?"
WHICH_POSITIONS = "a position counts from the request's first token: where does a later chunk begin?"
WHICH_STARTS = (
    "query_start_loc counts places of the step's row: where does each request begin in it, and the last one end?"
)
HOW_MANY_STARTS = (
    "query_start_loc has the row where each request begins, and the end of the last one: how many numbers?"
)
OWN_COUNTER = (
    "your {what} begin after the tokens of this step. Do you use the `num_computed_tokens` of the ScheduledRequest, or "
    "the request's own, which advanced when the step was planned?"
)


def hint_of_flat(
    batch: Sequence[ScheduledRequest], yours: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]
) -> str:
    """Return a hint for a wrong (input_ids, positions, query_start_loc), about the first of them that differs."""
    first = batch[0].num_computed_tokens + batch[0].num_scheduled_tokens
    later = batch[0].request.all_token_ids[first : first + 1]
    if not yours[0] and list(yours[1][:1]) == [first]:
        return OWN_COUNTER.format(what="positions")
    if list(yours[0]) != list(expected[0]):
        return OWN_COUNTER.format(what="tokens") if later and list(yours[0][:1]) == later else WHICH_TOKENS
    if list(yours[1]) != list(expected[1]):
        return OWN_COUNTER.format(what="positions") if list(yours[1][:1]) == [first] else WHICH_POSITIONS
    return WHICH_STARTS if len(yours[2]) == len(expected[2]) else HOW_MANY_STARTS
