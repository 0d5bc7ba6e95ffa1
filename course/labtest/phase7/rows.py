"""Checks of `select_logits_rows`: batches with drafts in them, and rows counted one by one."""

import random
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

from course.labtest.expect import expect_equal
from course.labtest.phase6.whole_numbers import whole_numbers
from course.labtest.phase7.identify import identified
from course.labtest.support import fields_of, make_request
from mini_vllm.core.step import ScheduledRequest

RULE_OF_ROWS = (
    "Of a request that needs a token, the rows of its last known token and of its drafts are selected, in this order."
)
HINT_OF_ROWS = "write the step's tokens in one row: which of them predict a token that nobody knows?"


def chunk(name: str, first: int, size: int, num_prompt: int = 20) -> ScheduledRequest:
    """Return a part of a prompt that does not reach its end."""
    return ScheduledRequest(make_request(name, num_prompt), first, size, [1, 2], needs_token=False)


def last(name: str, num_tokens: int, size: int, drafts: Sequence[int] = ()) -> ScheduledRequest:
    """Return the last `size` known tokens of a request, and its drafts behind them."""
    request = make_request(name, max(1, num_tokens - 2), num_output_tokens=min(2, num_tokens - 1))
    first = num_tokens - size
    return ScheduledRequest(request, first, size + len(drafts), [3, 4], needs_token=True, draft_token_ids=drafts)


def naive_rows(batch: Sequence[ScheduledRequest]) -> list[int]:
    """Count the rows one by one; keep those of a token behind which none is known."""
    rows, row = [], 0
    for scheduled in batch:
        known = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens - len(scheduled.draft_token_ids)
        for place in range(
            scheduled.num_computed_tokens, scheduled.num_computed_tokens + scheduled.num_scheduled_tokens
        ):
            if scheduled.needs_token and place >= known - 1:
                rows.append(row)
            row += 1
    return rows


def check_rows(phase7: ModuleType, batch: list[ScheduledRequest]) -> None:
    """Compare the rows of a batch."""
    situation, row = [], 0
    for one in batch:
        end = row + one.num_scheduled_tokens
        num_known = one.num_scheduled_tokens - len(one.draft_token_ids)
        situation.append(
            f"{one.request.request_id}: rows {row} to {end - 1}, {num_known} known and drafts "
            f"{list(one.draft_token_ids)}, needs {'a' if one.needs_token else 'no'} token"
        )
        row = end
    before = [(fields_of(one.request), list(one.block_ids), list(one.draft_token_ids)) for one in batch]
    order = list(batch)
    yours, expected = whole_numbers(phase7.select_logits_rows(batch), "select_logits_rows"), naive_rows(batch)
    rule, hint = RULE_OF_ROWS, HINT_OF_ROWS
    if yours != expected:

        def ask(other: Sequence[ScheduledRequest]) -> list[int]:
            return whole_numbers(phase7.select_logits_rows(list(other)), "select_logits_rows")

        rng = random.Random(1)
        others = [random_batch(rng) for _ in range(100)]
        rule, hint = identified(batch, others, ask, row_mistakes) or (rule, hint)
    expect_equal(yours, expected, rule=rule, situation=situation, hint=hint)
    after = [(fields_of(one.request), list(one.block_ids), list(one.draft_token_ids)) for one in batch]
    expect_equal(
        {"the batch": order == batch, "its requests, blocks and drafts": after == before},
        {"the batch": True, "its requests, blocks and drafts": True},
        rule="select_logits_rows only reads the batch.",
        situation=[*situation, "compared: is everything as it was before your call?"],
        hint="which of your operations changes a list or a request in place?",
    )


def row_mistakes(batch: Sequence[ScheduledRequest]) -> Iterator[tuple[list[int], str, str]]:
    """Yield the rows that a mistake selects, the rule that it breaks, and a hint."""
    needing = [one for one in batch if one.needs_token]
    yield (
        rows_at_the_end(batch, lambda one: int(one.needs_token)),
        "A request with k drafts needs k + 1 rows: each draft is checked by the row of the token before it.",
        "yours has one row per request. Which row says whether the first draft is right?",
    )
    yield (
        rows_at_the_end(batch, lambda one: len(one.draft_token_ids) * one.needs_token),
        "The row of the last known token checks the first draft.",
        "which row predicts the token that the first draft guesses?",
    )
    yield (
        rows_at_the_end(batch, lambda one: one.num_scheduled_tokens * one.needs_token),
        "Known tokens before the last one need no logits: what follows them is known.",
        "yours takes all rows of a request: which of them predict a token that is known?",
    )
    yield (
        rows_at_the_end(batch, lambda one: len(one.draft_token_ids) + 1),
        "A request without `needs_token` has no row.",
        "which of these requests need no token yet?",
    )
    yield (
        rows_at_the_end(needing, num_needed),
        "The rows of requests that need no token lie between the others, too.",
        "by how much does your place in the row move on at a request that needs no token?",
    )
    yield (
        rows_at_the_end(batch, num_needed, size=lambda one: one.num_scheduled_tokens + len(one.draft_token_ids)),
        "num_scheduled_tokens counts the drafts already.",
        "how many rows does a request have in the step?",
    )
    yield (
        rows_at_the_end(batch, lambda one: max(1, len(one.draft_token_ids)) * one.needs_token),
        "The row of the last known token checks the first draft.",
        "which row predicts the token that the first draft guesses?",
    )
    yield (
        rows_at_the_end(batch, lambda one: (sum(map(bool, one.draft_token_ids)) + 1) * one.needs_token),
        "Token 0 is a token like any other.",
        "which of your conditions is false for the number 0?",
    )
    yield (
        [row for one in needing for row in rows_at_the_end([one], num_needed)],
        "Rows are counted over the whole step, not within a request.",
        "where do the rows of the second request begin?",
    )


def num_needed(scheduled: ScheduledRequest) -> int:
    """Return how many rows a request needs."""
    return (len(scheduled.draft_token_ids) + 1) * scheduled.needs_token


def rows_at_the_end(
    batch: Sequence[ScheduledRequest],
    count: Callable[[ScheduledRequest], int],
    size: Callable[[ScheduledRequest], int] = lambda one: one.num_scheduled_tokens,
) -> list[int]:
    """Return the last `count` rows of each request, if each takes `size` rows of the step."""
    rows: list[int] = []
    end = 0
    for scheduled in batch:
        end += size(scheduled)
        rows += range(end - count(scheduled), end)
    return rows


def random_batch(rng: random.Random) -> list[ScheduledRequest]:
    """Return prompt chunks, whole prompts, decodes and drafts in any order."""
    batch: list[ScheduledRequest] = []
    for index in range(rng.randint(1, 6)):
        drafts = [rng.randint(0, 9) for _ in range(rng.randint(0, 5))]
        kinds = [
            chunk(f"r{index}", rng.randint(0, 9), rng.randint(1, 9)),
            last(f"r{index}", num_tokens := rng.randint(1, 12), rng.randint(1, num_tokens)),
            last(f"r{index}", rng.randint(2, 12), 1, drafts),
            last(f"r{index}", num_tokens := rng.randint(2, 12), rng.randint(1, num_tokens), tuple(drafts)),
        ]
        batch.append(rng.choice(kinds))
    return batch
