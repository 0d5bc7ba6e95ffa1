"""Calls of `correct_share`: what goes in and what comes out."""

from types import ModuleType

from course.labtest.expect import expect_equal, explained
from course.labtest.phase8.cases import changed_besides, request_with, shown
from course.labtest.phase8.share_symptoms import FROZEN, RULE, Plan, symptom_of_share
from course.labtest.phase8.symptoms import counted
from course.labtest.support import fields_of
from mini_vllm.core.step import ScheduledRequest


def check_share(phase8: ModuleType, plan: Plan, *, needs_token: bool = True) -> None:
    """Correct a share and compare all of it, and that nothing was changed."""
    num_tokens = plan.start - plan.num_rejected + plan.num_known
    request = request_with(3, max(0, num_tokens - 3), computed=plan.start + plan.size)
    stand_ins, blocks, drafts = [-1] * plan.num_stand_ins, [7, 3, 9], list(plan.drafts)
    share = ScheduledRequest(request, plan.start, plan.size, blocks, needs_token, stand_ins)
    before = fields_of(request)
    lines = [
        f"planned: {counted(plan.size, 'token')} from {plan.start} on, at the end of them "
        f"{counted(plan.num_stand_ins, 'stand-in')}",
        f"correct_share(share, {plan.num_rejected}, {drafts})",
    ]
    with explained(lines, rule=RULE):
        result = phase8.correct_share(share, plan.num_rejected, drafts)
    if result is None:
        expect_equal(
            None, "a ScheduledRequest", rule=FROZEN, situation=lines, hint="what does your function return at its end?"
        )
    yours = {**_numbers(result), "kept": _kept(result, request, needs_token)}
    expected = {
        "num_computed_tokens": plan.start - plan.num_rejected,
        "num_scheduled_tokens": plan.num_known + len(plan.taken),
        "draft_token_ids": plan.taken,
        "kept": ["request", "block_ids", "needs_token"],
    }
    rule, hint = symptom_of_share(plan, yours, expected) or (
        RULE,
        "which known tokens does this share compute, which drafts, and where do they begin?",
    )
    expect_equal(yours, expected, rule=rule, situation=lines, hint=hint)
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
        hint="which line of yours assigns to the share that was given, or changes a list in place?",
    )


def _numbers(share: ScheduledRequest) -> dict[str, object]:
    return {
        "num_computed_tokens": share.num_computed_tokens,
        "num_scheduled_tokens": share.num_scheduled_tokens,
        "draft_token_ids": shown(share.draft_token_ids),
    }


def _kept(share: ScheduledRequest, request: object, needs_token: bool) -> list[str]:
    kept = {
        "request": share.request is request,
        "block_ids": shown(share.block_ids) == [7, 3, 9],
        "needs_token": share.needs_token == needs_token,
    }
    return [name for name, is_kept in kept.items() if is_kept]
