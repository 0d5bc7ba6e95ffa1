"""Calls of `correct_share`: what goes in and what comes out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.grading.labtest.expect import Told, expect_equal, explained
from mini_vllm_labs.grading.labtest.moments import Living, varied
from mini_vllm_labs.grading.labtest.phase8.cases import changed_besides, request_with, shown, told_of_call
from mini_vllm_labs.grading.labtest.support import fields_of
from mini_vllm_labs.pictures.text import counted

RULE = (
    "A share that was planned ahead begins num_rejected_tokens earlier, and its stand-ins become the drafts that are "
    "there."
)
BEGINS_EARLIER = (
    "The plan took the drafts of the step before for accepted: for each one that was rejected the share begins one "
    "token earlier."
)
FIRST_DRAFTS = (
    "Drafts take the places of stand-ins, the first draft the first place; there are no more places than planned."
)
NO_STAND_IN_LEFT = "No stand-in is computed: a place for which there is no draft is left out, and the share is shorter."
FROZEN = "correct_share returns a new share and changes nothing: the scheduler keeps the original plan."
OTHER_TABLES = [[0, 4, 9]]  # of a second group of layers, as phase 12 has them
Kept = tuple[Request, list[int], bool]  # the request, the blocks and `needs_token` of a share


@dataclass(frozen=True, slots=True)
class PlannedShare:
    """A share as it was planned, and what has become known since."""

    start: int
    num_known: int
    num_stand_ins: int
    num_rejected: int
    drafts: Sequence[int]

    @property
    def size(self) -> int:
        return self.num_known + self.num_stand_ins

    @property
    def taken(self) -> list[int]:
        """The drafts that have a place, one after the other."""
        return [draft for _, draft in zip(range(self.num_stand_ins), self.drafts, strict=False)]


def rule_of(plan: PlannedShare) -> str:
    if len(plan.drafts) < plan.num_stand_ins:
        return NO_STAND_IN_LEFT
    if plan.num_stand_ins:
        return FIRST_DRAFTS
    return BEGINS_EARLIER if plan.num_rejected else RULE


def check_share(
    phase8: ModuleType, plan: PlannedShare, *, needs_token: bool = True, living: Living | None = None
) -> None:
    """Correct a share, perhaps of a request that lives on, and compare all of it, and that nothing was changed."""
    num_tokens = plan.start - plan.num_rejected + plan.num_known
    request = request_with(3, max(0, num_tokens - 3), computed=plan.start + plan.size)
    if living is not None:
        request = living.now(varied(request, living.random))
        request.num_computed_tokens += living.random.choice([0, 3])  # the step after this one may be planned, too
    stand_ins, blocks, drafts = [-1] * plan.num_stand_ins, [7, 3, 9], list(plan.drafts)
    tables = [blocks, *map(list, OTHER_TABLES)]
    share = ScheduledRequest(request, plan.start, plan.size, blocks, needs_token, stand_ins, block_tables=tables)
    before = fields_of(request)
    lines = [
        f"planned: {counted(plan.size, 'token')} from {plan.start} on, at the end of them "
        f"{counted(plan.num_stand_ins, 'stand-in')}",
        f"correct_share(share, {plan.num_rejected}, {drafts})",
    ]
    with explained(lines, rule=rule_of(plan), hint=hint_of_places(plan)):
        result = phase8.correct_share(share, plan.num_rejected, drafts)

    def again(copied: Request) -> ScheduledRequest:
        places = [-1] * plan.num_stand_ins
        given = ScheduledRequest(copied, plan.start, plan.size, [7, 3, 9], needs_token, places, block_tables=tables)
        return phase8.correct_share(given, plan.num_rejected, list(plan.drafts))  # type: ignore[no-any-return]

    check_result(result, plan, (request, [7, 3, 9], needs_token), lines, again)
    changed = changed_besides(request, before)
    expect_equal(
        {**_numbers(share), "block_ids": blocks, "drafts given": drafts, "fields of the request": changed},
        {
            "num_computed_tokens": plan.start,
            "num_scheduled_tokens": plan.size,
            "draft_token_ids": [-1] * plan.num_stand_ins,
            "block_ids": [7, 3, 9],
            "drafts given": list(plan.drafts),
            "fields of the request": [],
        },
        rule=FROZEN,
        situation=lines,
        hint="which line of yours assigns to the share or the request, or changes a list in place?",
    )


def hint_of_places(plan: PlannedShare) -> str:
    """Return a question for an index that does not exist, if there are more drafts than places or fewer."""
    if len(plan.drafts) == plan.num_stand_ins:
        return ""
    return (
        f"{counted(len(plan.drafts), 'draft')} for {counted(plan.num_stand_ins, 'place')}. What does your code do with "
        f"{'a place without a draft' if len(plan.drafts) < plan.num_stand_ins else 'a draft without a place'}?"
    )


def check_result(
    result: ScheduledRequest | None,
    plan: PlannedShare,
    planned: Kept,
    lines: Sequence[str],
    again: Callable[[Request], ScheduledRequest],
) -> None:
    """Compare a corrected share with the expected one. `planned` is what it keeps of the planned share.

    `again` corrects an equal share of another request.
    """
    if result is None:
        expect_equal(
            None,
            "a ScheduledRequest",
            rule="correct_share returns the share as it has to be computed.",
            situation=lines,
            hint="does every path through your function end in a `return`?",
        )
    assert result is not None
    expect_equal(
        _kept(result, planned),
        ["request", "block_ids", "needs_token", "block_tables"],
        rule="The corrected share is that of the same request object, with the same blocks and the same `needs_token`.",
        situation=[*lines, "compared: which of the four are still those of the planned share"],
        hint="how do you make the new share: what do you copy, and what do you leave out?",
    )
    expected = {
        "num_computed_tokens": plan.start - plan.num_rejected,
        "num_scheduled_tokens": plan.num_known + len(plan.taken),
        "draft_token_ids": plan.taken,
    }
    yours = _numbers(result)
    start_differs = yours["num_computed_tokens"] != expected["num_computed_tokens"]
    begins = (
        f"planned from {plan.start} on, {counted(plan.num_rejected, 'draft')} rejected before: where does it begin?"
    )
    holds = (
        f"{counted(plan.num_known, 'token')} before the stand-ins, and {counted(len(plan.drafts), 'draft')} for "
        f"{counted(plan.num_stand_ins, 'place')}: what does it hold, and how many tokens is that?"
    )
    told: Told = {
        "rule": BEGINS_EARLIER if start_differs else rule_of(plan),
        "situation": lines,
        "hint": begins if start_differs else holds,
    }
    if yours != expected:
        told = told_of_call(
            told,
            lambda copies: _numbers(again(copies[0])),
            planned[:1],
            expected,
            alone="the same call, with a copy of the request",
        )
    expect_equal(yours, expected, **told)


def _numbers(share: ScheduledRequest) -> dict[str, object]:
    return {
        "num_computed_tokens": share.num_computed_tokens,
        "num_scheduled_tokens": share.num_scheduled_tokens,
        "draft_token_ids": shown(share.draft_token_ids),
    }


def _kept(result: ScheduledRequest, planned: Kept) -> list[str]:
    request, block_ids, needs_token = planned
    kept = {
        "request": result.request is request,
        "block_ids": shown(result.block_ids) == block_ids,
        "needs_token": result.needs_token == needs_token,
        "block_tables": [shown(table) for table in result.block_tables] == [block_ids, *OTHER_TABLES],
    }
    return [name for name, is_kept in kept.items() if is_kept]
