"""Mistakes in `select_logits_rows`: the rows that each selects, the rule that it breaks, and a hint."""

from collections.abc import Callable, Iterator, Sequence

from course.views.text import counted
from mini_vllm.core.step import ScheduledRequest

Count = Callable[[ScheduledRequest], int]
RULE_OF_ROWS = (
    "Of a request that needs a token, the rows of its last known token and of its drafts are selected, in this order."
)
FIRST_DRAFT = "The row of the last known token checks the first draft."
LAST_DRAFT = "The row of the last draft says what follows if all drafts are right."
ONE_MORE = "A request with k drafts needs k + 1 rows: each draft is checked by the row of the token before it."
WHOLE_STEP = "Rows are counted over the whole step, not within a request."
COUNTED_ALREADY = "num_scheduled_tokens counts the drafts already."


def symptom_of_rows(yours: Sequence[int], expected: Sequence[int]) -> tuple[str, str]:
    """Return (rule, hint) that holds for every mistake that gives these wrong rows."""
    if sorted(yours) == sorted(expected):
        return RULE_OF_ROWS, "yours are the right rows in another order. Which token of a request comes first?"
    if len(yours) != len(expected):
        return RULE_OF_ROWS, (
            f"yours {'is' if len(yours) == 1 else 'are'} {counted(len(yours), 'row')}, and the step samples "
            f"{counted(len(expected), 'token')}. For which request is the number another one?"
        )
    wrong, right = next(pair for pair in zip(yours, expected, strict=True) if pair[0] != pair[1])
    return (
        RULE_OF_ROWS,
        f"the first wrong one is your row {wrong}, in place of {right}. Which token is in each of them?",
    )


def row_mistakes(batch: Sequence[ScheduledRequest]) -> Iterator[tuple[list[int], str, str]]:
    """Yield the rows that a mistake selects, the rule that it breaks, and a hint."""
    needing = [one for one in batch if one.needs_token]
    hint = "yours has one row per request. Which row says whether the first draft is right?"
    yield rows_at_the_end(batch, lambda one: int(one.needs_token)), ONE_MORE, hint
    hint = "yours has one row per request. Which row says what follows the last draft?"
    yield rows_at_the_end(batch, lambda one: int(one.needs_token), back=num_drafts), ONE_MORE, hint
    hint = "which row predicts the token that the first draft guesses?"
    yield rows_at_the_end(batch, lambda one: num_drafts(one) * one.needs_token), FIRST_DRAFT, hint
    yield rows_at_the_end(batch, lambda one: max(1, num_drafts(one)) * one.needs_token), FIRST_DRAFT, hint
    yield rows_at_the_end(batch, num_drafts), FIRST_DRAFT, hint
    hint = "which row predicts the token behind the last draft?"
    yield rows_at_the_end(batch, lambda one: num_drafts(one) * one.needs_token, back=lambda one: 1), LAST_DRAFT, hint
    yield (
        rows_at_the_end(batch, num_needed, back=lambda one: 1),
        RULE_OF_ROWS,
        "your rows are one too early. Where does a request end, if its first row is 0 and it has n tokens?",
    )
    yield (
        rows_at_the_end(batch, num_needed, back=lambda one: -1),
        RULE_OF_ROWS,
        "your rows are one too late. Where does a request end, if its first row is 0 and it has n tokens?",
    )
    yield (
        rows_at_the_end(batch, num_needed, back=lambda one: one.num_scheduled_tokens - num_drafts(one) - 1),
        "Known tokens before the last one need no logits: what follows them is known.",
        "your rows are the first ones of a request. At which end are its drafts?",
    )
    yield (
        rows_at_the_end(batch, lambda one: one.num_scheduled_tokens * one.needs_token),
        "Known tokens before the last one need no logits: what follows them is known.",
        "yours takes all rows of a request: which of them predict a token that is known?",
    )
    yield (
        rows_at_the_end(batch, lambda one: num_drafts(one) + 1),
        "A request without `needs_token` has no row.",
        "which of these requests need no token yet?",
    )
    yield (
        rows_at_the_end(batch, lambda one: (num_drafts(one) + 1) * (num_drafts(one) > 0)),
        "Every request with `needs_token` has a row, without drafts, too.",
        "which of these requests has no drafts and needs a token?",
    )
    yield (
        rows_at_the_end(needing, num_needed),
        "The rows of requests that need no token lie between the others, too.",
        "by how much does your place in the row move on at a request that needs no token?",
    )
    hint = "how many rows does a request have in the step, and by how much does your place move on?"
    yield (
        rows_at_the_end(batch, num_needed, size=lambda one: one.num_scheduled_tokens + num_drafts(one)),
        COUNTED_ALREADY,
        hint,
    )
    yield (
        rows_at_the_end(
            batch,
            num_needed,
            size=lambda one: one.num_scheduled_tokens - num_drafts(one),
            back=lambda one: -num_drafts(one),
        ),
        "Drafts are tokens of the step: each has a row.",
        hint,
    )
    yield (
        rows_at_the_end(batch, lambda one: (sum(map(bool, one.draft_token_ids)) + 1) * one.needs_token),
        "Token 0 is a token like any other.",
        "which of your conditions is false for the number 0?",
    )
    alone = [rows_at_the_end([one], num_needed) for one in batch]
    yield [row for rows in alone for row in rows], WHOLE_STEP, "where do the rows of the second request begin?"
    yield (
        [row + one.num_computed_tokens for one, rows in zip(batch, alone, strict=True) for row in rows],
        "A row is a place in the step, not a position in the text.",
        "the first token of the step is in row 0. Does num_computed_tokens say anything about a row?",
    )


def num_drafts(scheduled: ScheduledRequest) -> int:
    return len(scheduled.draft_token_ids)


def num_needed(scheduled: ScheduledRequest) -> int:
    """Return how many rows a request needs."""
    return (num_drafts(scheduled) + 1) * scheduled.needs_token


def rows_at_the_end(
    batch: Sequence[ScheduledRequest],
    count: Count,
    size: Count = lambda one: one.num_scheduled_tokens,
    back: Count = lambda one: 0,
) -> list[int]:
    """Return the last `count` rows of each request before the last `back`, if each takes `size` rows of the step."""
    rows: list[int] = []
    end = 0
    for scheduled in batch:
        end += size(scheduled)
        last = end - back(scheduled)
        rows += range(last - count(scheduled), last)
    return rows
