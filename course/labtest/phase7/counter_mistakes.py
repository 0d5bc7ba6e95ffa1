"""Known mistakes in `schedule_drafts` and `roll_back`: what each leaves, the rule that it breaks, and a hint."""

from collections.abc import Iterator

from course.labtest.phase7.counter_symptoms import (
    EACH_BY_ITSELF,
    NO_PLACEHOLDERS,
    NOTHING_COMPUTED,
    RULE_OF_SCHEDULED,
    SMALLER,
)
from course.views.text import counted
from mini_vllm.core.request import Request

NOT_REACHED = "A step that does not reach the drafts has scheduled none of them."
BETWEEN = "Placeholders stand between the known tokens and the drafts."
RIGHT_STAY = "Accepted drafts stay computed: their K and V are right."
LAST_IS_OWN = "The last sampled token is never a draft: it is the model's own."


def scheduling_mistakes(request: Request) -> Iterator[tuple[list[int], str, str]]:
    """Yield the drafts that a mistake returns, the rule that it breaks, and a hint."""
    computed, known, ahead = request.num_computed_tokens, request.num_tokens, request.num_output_placeholders
    drafts, num_scheduled = request.spec_token_ids, request.num_computed_tokens - known - ahead
    yield (
        drafts,
        "Only drafts that the step computes were scheduled: the budget may have cut the last ones off.",
        f"{counted(computed, 'token')} computed with this step, {known + ahead} known or placeholders. What is left?",
    )
    hint = f"{counted(ahead, 'placeholder')} among the computed tokens: does your count leave them out?"
    yield drafts[: max(0, computed - known)], BETWEEN, hint
    below = f"{computed} computed, {known + ahead} known or placeholders: what does a slice do with a number below 0?"
    yield drafts[: computed - known], *((NOT_REACHED, below) if computed < known else (BETWEEN, hint))
    yield drafts[:num_scheduled], NOT_REACHED, below
    yield (
        drafts[: max(0, computed - known + ahead)],
        BETWEEN,
        f"{counted(ahead, 'placeholder')} among the computed tokens: does your code add or subtract them?",
    )
    yield (
        drafts[len(drafts) - max(0, num_scheduled) :],
        "The last drafts are the ones that are cut off.",
        "which end of the drafts stands next to the known tokens?",
    )
    left_over = len(drafts) - num_scheduled
    hint = f"your code counts what the step leaves out, {left_over} here. What do you do with that number?"
    yield drafts[: max(0, left_over)], RULE_OF_SCHEDULED, hint
    yield (
        drafts[:-left_over],
        RULE_OF_SCHEDULED,
        f"your code cuts off what the step leaves out, {left_over} here. What is `drafts[:-0]`?",
    )
    yield (
        drafts[: max(0, computed - request.num_prompt_tokens - ahead)],
        "All known tokens come before the drafts, generated ones too.",
        f"known: {counted(request.num_prompt_tokens, 'prompt token')} and "
        f"{counted(request.num_output_tokens, 'generated token')}. Which of them are in your count?",
    )
    for more in (1, -1):
        yield (
            drafts[: max(0, num_scheduled + more)],
            RULE_OF_SCHEDULED,
            f"{computed} computed, {known} known, {counted(ahead, 'placeholder')}: yours is one draft too "
            f"{'many' if more > 0 else 'few'}. Does the counter hold the tokens of the step already?",
        )
    yield (
        drafts[: max(0, len(drafts) + num_scheduled)],
        RULE_OF_SCHEDULED,
        f"num_computed_tokens is {computed} already, with this step. Do your drafts count in it once, or twice?",
    )
    yield (
        [token_id for token_id in drafts[: max(0, num_scheduled)] if token_id >= 0],
        "Drafts of value -1 stand in for drafts that are not known yet: they count.",
        "which drafts does your code leave out?",
    )
    yield [], "schedule_drafts returns the drafts that were scheduled.", "which list do you return, and is it empty?"


def computed_mistakes(
    computed: int, placeholders: int, num_drafts: int, num_sampled: int
) -> Iterator[tuple[int, str, str]]:
    """Yield the num_computed_tokens that a mistake leaves, the rule that it breaks, and a hint."""
    num_rejected = num_drafts - (num_sampled - 1)
    yield from _amounts(computed, num_drafts, num_sampled, "num_computed_tokens", guarded=True)
    yield from _amounts(computed, num_drafts, num_sampled, "num_computed_tokens", guarded=False)
    yield computed - num_rejected, NOTHING_COMPUTED, "what is num_computed_tokens of a victim, and may it fall below 0?"
    for condition, hint in (
        (placeholders > 0, "does your code take them off num_computed_tokens only where there are placeholders?"),
        (placeholders == 0, "does your code take them off num_computed_tokens only where there are no placeholders?"),
    ):
        yield computed - num_rejected * (condition and computed > 0), EACH_BY_ITSELF, hint


def placeholder_mistakes(
    computed: int, placeholders: int, num_drafts: int, num_sampled: int
) -> Iterator[tuple[int, str, str]]:
    """Yield the num_output_placeholders that a mistake leaves, the rule that it breaks, and a hint."""
    num_rejected = num_drafts - (num_sampled - 1)
    yield from _amounts(placeholders, num_drafts, num_sampled, "num_output_placeholders", guarded=True)
    yield from _amounts(placeholders, num_drafts, num_sampled, "num_output_placeholders", guarded=False)
    below = "what is num_output_placeholders in a step that waits for nothing, and may it fall below 0?"
    yield placeholders - num_rejected, NO_PLACEHOLDERS, below
    waits = f"a request that {'runs' if computed else 'was preempted'} waits for its results, too"
    for condition in (computed > 0, computed == 0):
        told = (EACH_BY_ITSELF, f"{waits}. Which line of yours is not reached for it?")
        yield placeholders - num_rejected * (condition and placeholders > 0), *told
        if placeholders == 0:
            told = (NO_PLACEHOLDERS, f"{below} Does num_computed_tokens say anything about that?")
        yield placeholders - num_rejected * condition, *told
    yield (
        0,
        "Only the placeholders of rejected drafts are given back: the others are filled when their tokens arrive.",
        f"num_output_placeholders is {placeholders}. Rejected: {counted(num_rejected, 'draft')}. What is left?",
    )


def _amounts(
    was: int, num_drafts: int, num_sampled: int, name: str, *, guarded: bool
) -> Iterator[tuple[int, str, str]]:
    """Yield what is left of a counter if a wrong number is taken off, of one that is 0, too, unless `guarded`."""
    right = num_sampled - 1
    own = f"{counted(num_sampled, 'sampled token')}: how many of them were drafts?"
    of_all = f"right: {right} of {counted(num_drafts, 'draft')}. Your code takes {{}} off {name}: which are those?"
    for amount, rule, hint in (
        (0, "The counters counted the drafts when the step was planned; rejected ones are taken back.", (
            f"rejected: {counted(num_drafts - right, 'draft')}. Which line of yours takes them off {name}?"
        )),
        (num_drafts - num_sampled, LAST_IS_OWN, own),
        (num_sampled, LAST_IS_OWN, of_all),
        (right, "Rejected drafts are taken back, accepted ones stay computed.", of_all),
        (num_drafts, RIGHT_STAY, of_all),
        (right - num_drafts, SMALLER, "does your line add or subtract?"),
    ):  # fmt: skip
        yield was - amount * (was > 0 or not guarded), rule, hint.format(amount)
