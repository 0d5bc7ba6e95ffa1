"""What `schedule_drafts` and `roll_back` show by themselves if they are wrong: true for every mistake that does so."""

from collections.abc import Sequence

from course.views.text import counted
from mini_vllm.core.request import Request

Advice = tuple[str, str]
RULE_OF_SCHEDULED = (
    "A draft was scheduled if the planned step computes it: the known tokens and placeholders come first."
)
RULE_OF_ROLL_BACK = "roll_back takes the rejected drafts back, and only those."
COMPUTED, PLACEHOLDERS = "num_computed_tokens", "num_output_placeholders"
NOTHING_COMPUTED = "A request that was preempted since has nothing computed, and nothing to take back."
NO_PLACEHOLDERS = "Without placeholders there are none to give back."
EACH_BY_ITSELF = (
    "Rejected drafts leave both counters. num_computed_tokens stays only if it is 0, num_output_placeholders only if "
    "that is 0: neither depends on the other."
)
SMALLER = "Rejected drafts are taken back: the counters get smaller."


def symptom_of_scheduled(request: Request, yours: Sequence[int], expected: Sequence[int]) -> Advice:
    """Return (rule, hint) for drafts that are not those that were scheduled."""
    ahead = request.num_tokens + request.num_output_placeholders
    facts = (
        f"{counted(request.num_computed_tokens, 'token')} computed, {request.num_tokens} known, "
        f"{counted(request.num_output_placeholders, 'placeholder')}"
    )
    if not expected and request.num_computed_tokens < ahead:
        return (
            "A step that does not reach the drafts has scheduled none of them.",
            f"{facts}: which number does your code cut the drafts with, and what does a slice do if that is below 0?",
        )
    if len(yours) != len(expected):
        return (
            RULE_OF_SCHEDULED,
            f"{facts}, and yours are {counted(len(yours), 'draft')}. Which of these numbers does your code add, and "
            "which does it subtract?",
        )
    return RULE_OF_SCHEDULED, "yours are as many as they should be. Which of the drafts are the first ones?"


def symptom_of_roll_back(
    before: tuple[int, int], yours: tuple[int, int], right: tuple[int, int], num_drafts: int, num_sampled: int
) -> Advice:
    """Return (rule, hint) for the first of the counters (computed, placeholders) that is wrong."""
    which = 0 if yours[0] != right[0] else 1
    name = (COMPUTED, PLACEHOLDERS)[which]
    was, found = before[which], yours[which]
    if was == 0:
        return (
            (NOTHING_COMPUTED, NO_PLACEHOLDERS)[which],
            f"{name} is 0 before your call and {found} after it. What does your code ask before it changes this one?",
        )
    if found == was:
        other = (PLACEHOLDERS, COMPUTED)[which]
        unless = f" {other} is {before[1 - which]}: does your code ask for that first?" if not before[1 - which] else ""
        return (
            EACH_BY_ITSELF,
            f"{name} is {was} before your call and after it. Which line changes it, and when?{unless}",
        )
    right_ones = f"{num_sampled - 1} of {counted(num_drafts, 'draft')} right"
    if found > was:
        return SMALLER, f"your {name} went from {was} up to {found}. {right_ones}: what is to be taken off?"
    return RULE_OF_ROLL_BACK, (
        f"your code took {was - found} off {name}. {counted(num_sampled, 'sampled token')}, so {right_ones}: how many "
        "were rejected?"
    )
