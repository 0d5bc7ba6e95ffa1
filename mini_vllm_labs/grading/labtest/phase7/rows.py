"""Checks of `select_logits_rows`: batches with drafts in them."""

import random
from collections.abc import Sequence
from types import ModuleType

from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.grading.labtest.expect import expect_equal, explained
from mini_vllm_labs.grading.labtest.moments import varied
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.labtest.support import fields_of, make_request
from mini_vllm_labs.grading.labtest.whole_numbers import list_of

RULE_OF_ROWS = (
    "Of a request that needs a token, the rows of its last known token and of its drafts are selected, in this order."
)


def chunk(name: str, first: int, size: int, num_prompt: int = 20) -> ScheduledRequest:
    """Return a part of a prompt that does not reach its end."""
    return ScheduledRequest(make_request(name, num_prompt), first, size, [1, 2], needs_token=False)


def last(name: str, num_tokens: int, size: int, drafts: Sequence[int] = ()) -> ScheduledRequest:
    """Return the last `size` known tokens of a request, followed by its drafts, which the request has as tokens too."""
    request = make_request(name, max(1, num_tokens - 2), num_output_tokens=min(2, num_tokens - 1))
    first, size = num_tokens - size, size + len(drafts)
    request.num_computed_tokens = first + size
    share = ScheduledRequest(request, first, size, [3, 4], needs_token=True, draft_token_ids=drafts)
    return share.with_drafts()  # as the runner passes it


def check_rows(phase7: ModuleType, answers: Answers, batch: list[ScheduledRequest]) -> None:
    situation, row = [], 0
    for one in batch:
        end = row + one.num_scheduled_tokens
        num_known = one.num_scheduled_tokens - len(one.draft_token_ids)
        situation.append(
            f"{one.request.request_id}: {'row' if end == row + 1 else f'rows {row} to'} {end - 1}, {num_known} known "
            f"and drafts {list(one.draft_token_ids)}, needs {'a' if one.needs_token else 'no'} token"
        )
        row = end
    before = [(fields_of(one.request), list(one.block_ids), list(one.draft_token_ids)) for one in batch]
    order = list(batch)
    with explained(situation, rule=RULE_OF_ROWS):
        answer = phase7.select_logits_rows(batch)
    yours = list_of(answer, "select_logits_rows")
    expected = answers(yours)
    expect_equal(
        yours,
        expected,
        rule=RULE_OF_ROWS,
        situation=situation,
        hint="the number of rows is right: in which request is the first one that differs, and which token is in it?"
        if len(yours) == len(expected)
        else "how many rows does each request get, by its drafts and by whether it needs a token?",
    )
    after = [(fields_of(one.request), list(one.block_ids), list(one.draft_token_ids)) for one in batch]
    expect_equal(
        {"the batch": order == batch, "its requests, blocks and drafts": after == before},
        {"the batch": True, "its requests, blocks and drafts": True},
        rule="select_logits_rows only reads the batch.",
        situation=[*situation, "compared: is everything as it was before your call?"],
        hint="which of your operations changes a list or a request in place?",
    )


def random_batch(rng: random.Random) -> list[ScheduledRequest]:
    """Return prompt chunks, whole prompts, decodes and drafts in any order."""
    batch: list[ScheduledRequest] = []
    for index in range(40 if rng.random() < 0.03 else rng.randint(1, 6)):
        drafts = [rng.choice([0, 7, 300, 151_643]) for _ in range(rng.choice([rng.randint(0, 5), 17]))]
        kinds = [
            chunk(f"r{index}", rng.randint(0, 9), rng.randint(1, 9)),
            last(f"r{index}", num_tokens := rng.randint(1, 12), rng.randint(1, num_tokens)),
            last(f"r{index}", rng.randint(2, 12), 1, drafts),
            last(f"r{index}", num_tokens := rng.randint(2, 12), rng.randint(1, num_tokens), tuple(drafts)),
        ]
        batch.append(rng.choice(kinds))
        # The scheduler may have planned the next step already, or have preempted the request.
        varied(batch[-1].request, rng).num_computed_tokens += rng.choice(
            [0, 0, 1, 6, -batch[-1].request.num_computed_tokens]
        )
    return batch
