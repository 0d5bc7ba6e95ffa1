"""Mistakes in a corrected share: a better rule and hint than those of the test.

They are looked for only after a test has failed, and named only if one alone gives what was found.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from course.labtest.phase8.symptoms import Advice
from course.views.text import counted

RULE = (
    "A share that was planned ahead begins num_rejected_tokens earlier, and its stand-ins become the drafts that are "
    "there."
)
BEGINS_EARLIER = (
    "The plan took the drafts of the step before for accepted: for each one that was rejected the share begins one "
    "token earlier."
)
LENGTH = (
    "A share computes its known tokens, as many as were planned, and its drafts. Rejected ones change only the start."
)
FIRST_DRAFTS = (
    "Drafts take the places of stand-ins, the first draft the first place; there are no more places than planned."
)
NO_STAND_IN_LEFT = "No stand-in is computed: a place for which there is no draft is left out, and the share is shorter."
FROZEN = "correct_share returns a new share and changes nothing: the scheduler goes on with the plan as it was made."
KEPT = "Request, block table and needs_token are those of the plan."


@dataclass(frozen=True, slots=True)
class Plan:
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


def rule_of(plan: Plan) -> str:
    """Return the rule that a call is most about."""
    if len(plan.drafts) < plan.num_stand_ins:
        return NO_STAND_IN_LEFT
    if plan.num_stand_ins:
        return FIRST_DRAFTS
    return BEGINS_EARLIER if plan.num_rejected else RULE


def symptom_of_share(plan: Plan, yours: Mapping[str, object], expected: Mapping[str, object]) -> Advice:
    """Return (rule, hint) for the first wrong part: of the one mistake that explains it, or what can be seen."""
    if yours["kept"] != expected["kept"]:
        kept = yours["kept"] if isinstance(yours["kept"], list) else []
        others = " and ".join(name for name in ("request", "block_ids", "needs_token") if name not in kept)
        return KEPT, f"your share has another {others} than the plan. Which line of yours sets that?"
    for part, mistakes in (
        ("draft_token_ids", _wrong_drafts(plan)),
        ("num_computed_tokens", _wrong_starts(plan)),
        ("num_scheduled_tokens", _wrong_sizes(plan)),
    ):
        if yours[part] != expected[part]:
            fitting = {(rule, hint) for wrong, rule, hint in mistakes if yours[part] == wrong != expected[part]}
            return fitting.pop() if len(fitting) == 1 else _seen(plan, part, yours[part])
    return "", ""


def _seen(plan: Plan, part: str, yours: object) -> Advice:
    """Return what holds for every mistake that leaves this part."""
    there = f"{counted(len(plan.drafts), 'draft')} for {counted(plan.num_stand_ins, 'place')}"
    if part == "draft_token_ids":
        return rule_of(plan) if plan.num_stand_ins else FIRST_DRAFTS, (
            f"{there}, and yours are {yours}. Which line chooses the drafts, and what does it leave out or add?"
        )
    if part == "num_computed_tokens":
        return BEGINS_EARLIER, (
            f"your share begins at {yours}, and it was planned from {plan.start} on. Rejected before: "
            f"{counted(plan.num_rejected, 'draft')}. Which number does your code start from, and what does it take off?"
        )
    return LENGTH, (
        f"your share has a length of {yours}. In the plan {counted(plan.num_known, 'token')} came before the "
        f"stand-ins, and now there are {there}. What is the sum?"
    )


def _wrong_drafts(plan: Plan) -> Iterator[tuple[object, str, str]]:
    places, drafts = plan.num_stand_ins, list(plan.drafts)
    yield (
        drafts,
        FIRST_DRAFTS,
        f"{counted(len(drafts), 'draft')} for {counted(places, 'place')}: your share has all of them. How many have a "
        "place?",
    )
    yield (
        drafts[max(0, len(drafts) - places) :],
        FIRST_DRAFTS,
        "your share has the last drafts. Which of them follows the newest token?",
    )
    if not drafts:
        yield [-1] * places, NO_STAND_IN_LEFT, "your share has the plan's stand-ins. What would the model compute?"
    else:
        there = f"{counted(len(drafts), 'draft')} for {counted(places, 'place')}"
        hint = (
            f"{there}, and your share has the plan's stand-ins. Which line puts the drafts in, and when is it reached?"
        )
        yield [-1] * places, FIRST_DRAFTS, hint
        yield [], FIRST_DRAFTS, f"{there}: your share has none. Which line leaves them out, and on what condition?"
        yield (
            [*plan.taken, *[-1] * (places - len(plan.taken))],
            NO_STAND_IN_LEFT,
            f"{counted(len(drafts), 'draft')} for {counted(places, 'place')}: what is in the others?",
        )
    yield [draft for draft in plan.taken if draft], FIRST_DRAFTS, "your share has no draft 0. Is 0 the id of a token?"
    yield (
        drafts[plan.num_rejected : plan.num_rejected + places],
        FIRST_DRAFTS,
        f"your share leaves out the first {counted(plan.num_rejected, 'draft')}. Which drafts were rejected, these?",
    )
    yield (
        drafts[: max(0, places - plan.num_rejected)],
        FIRST_DRAFTS,
        f"your share has {counted(plan.num_rejected, 'draft')} fewer. Were this step's drafts rejected, or another's?",
    )


def _wrong_starts(plan: Plan) -> Iterator[tuple[object, str, str]]:
    start, rejected = plan.start, plan.num_rejected
    missing = plan.num_stand_ins - len(plan.taken)
    yield (
        start,
        BEGINS_EARLIER,
        f"your share begins where it was planned. Rejected before: {counted(rejected, 'draft')}. What now?",
    )
    yield start + rejected, BEGINS_EARLIER, "your share begins later. Are there more tokens than planned, or fewer?"
    yield (
        start - rejected - 1,
        BEGINS_EARLIER,
        f"your share begins {counted(rejected + 1, 'token')} earlier, for {counted(rejected, 'rejected draft')}. Why "
        "one more?",
    )
    if missing:
        yield (
            start - rejected - missing,
            BEGINS_EARLIER,
            f"your share begins {counted(missing, 'token')} too early, as many as it has places without a draft. Where "
            "are those places?",
        )


def _wrong_sizes(plan: Plan) -> Iterator[tuple[object, str, str]]:
    rejected, taken = plan.num_rejected, len(plan.taken)
    yield (
        plan.size,
        LENGTH,
        f"your share has as many tokens as planned, and {counted(taken, 'draft')} for "
        f"{counted(plan.num_stand_ins, 'place')}. What is in the others?",
    )
    if rejected:
        yield (
            plan.num_known + taken - rejected,
            LENGTH,
            f"your share has {counted(rejected, 'token')} fewer than known ones and drafts. Which are left out?",
        )
        yield (
            plan.num_known + taken + rejected,
            LENGTH,
            f"your share has {counted(rejected, 'token')} more than known ones and drafts. Which are those?",
        )
    yield (
        plan.num_known + len(plan.drafts),
        LENGTH,
        f"your share counts all drafts, {len(plan.drafts)} of them. How many have a place?",
    )
    yield (
        1 + taken,
        LENGTH,
        f"the plan has {counted(plan.num_known, 'token')} before its stand-ins: how many does your share have?",
    )
    yield taken, LENGTH, "your share has as many tokens as drafts. Where is the token in front of them?"
