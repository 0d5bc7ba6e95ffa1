"""Mistakes in `schedule_drafts` and `roll_back` that are visible in the numbers. Looked for after a test has failed."""

from collections.abc import Iterator

from mini_vllm.core.request import Request

RULE_OF_SCHEDULED = (
    "A draft was scheduled if the planned step computes it: the known tokens and placeholders come first."
)
HINT_OF_SCHEDULED = "of the computed tokens, how many are known ones, how many are placeholders, and what is left?"
RULE_OF_ROLL_BACK = "roll_back takes the rejected drafts back, and only those."
HINT_OF_ROLL_BACK = "each step samples one token more than it accepts drafts: how many drafts were wrong?"


def scheduling_mistakes(request: Request) -> Iterator[tuple[list[int], str, str]]:
    """Yield the drafts that a mistake returns, the rule that it breaks, and a hint."""
    computed, known, ahead = request.num_computed_tokens, request.num_tokens, request.num_output_placeholders
    drafts, num_scheduled = request.spec_token_ids, request.num_computed_tokens - known - ahead
    yield (
        drafts,
        "Only drafts that the step computes were scheduled: the budget may have cut the last ones off.",
        f"{computed} tokens are computed with this step, {known + ahead} of them are no drafts. What is left?",
    )
    yield (
        drafts[: max(0, computed - known)],
        "Placeholders stand between the known tokens and the drafts.",
        f"{ahead} of the computed tokens are placeholders: does your count leave them out?",
    )
    yield (
        drafts[len(drafts) - max(0, num_scheduled) :],
        "The last drafts are the ones that are cut off.",
        "which end of the drafts stands next to the known tokens?",
    )
    yield (
        drafts[:num_scheduled],
        "A step that does not reach the drafts has scheduled none of them.",
        f"{computed} computed, {known + ahead} known or placeholders: what does a slice do with a number below 0?",
    )
    yield (
        drafts[: max(0, computed - request.num_prompt_tokens - ahead)],
        "All known tokens come before the drafts, generated ones too.",
        f"it has {request.num_prompt_tokens} prompt tokens and {request.num_output_tokens} generated ones: which of "
        "them are in your count?",
    )
    for more in (1, -1):
        yield (
            drafts[: max(0, num_scheduled + more)],
            RULE_OF_SCHEDULED,
            f"{computed} computed, {known} known, {ahead} placeholders: yours is one draft too "
            f"{'many' if more > 0 else 'few'}. Does the counter hold the tokens of the step already?",
        )
    yield (
        [token_id for token_id in drafts[: max(0, num_scheduled)] if token_id >= 0],
        "Drafts of value -1 stand in for drafts that are not known yet: they count.",
        "which drafts does your code leave out?",
    )
    yield (
        [],
        "schedule_drafts returns the drafts that were scheduled.",
        "which list do you return, and is it empty by then?",
    )


def counter_mistakes(
    computed: int, placeholders: int, num_drafts: int, num_sampled: int
) -> Iterator[tuple[tuple[int, int], str, str]]:
    """Yield the counters (computed, placeholders) that a mistake leaves, the rule that it breaks, and a hint."""
    num_rejected = num_drafts - (num_sampled - 1)

    def taken(number: int) -> tuple[int, int]:
        return computed - number * (computed > 0), placeholders - number * (placeholders > 0)

    yield (
        taken(num_drafts - num_sampled),
        "The last sampled token is never a draft: it is the model's own.",
        f"the number of sampled tokens is {num_sampled}: how many of them were drafts?",
    )
    yield (
        taken(num_sampled - 1),
        "Rejected drafts are taken back, accepted ones stay computed.",
        f"accepted drafts: {num_sampled - 1} of {num_drafts}. Is that what you take back?",
    )
    yield (
        taken(num_drafts),
        "Accepted drafts stay computed: their K and V are right.",
        f"right drafts: {num_sampled - 1} of {num_drafts}. What do you take back?",
    )
    yield (
        taken(-num_rejected),
        "Rejected drafts are taken back: the counters get smaller.",
        "does your line add or subtract?",
    )
    yield (
        (computed, placeholders),
        "The counters counted the drafts when the step was planned; rejected ones are taken back.",
        f"{num_rejected} drafts were rejected: which line of yours takes them from the counters?",
    )
    yield (
        (computed - num_rejected, taken(num_rejected)[1]),
        "A request that was preempted since has nothing computed, and nothing to take back.",
        "what is num_computed_tokens of a victim, and may it fall below 0?",
    )
    yield (
        taken(num_rejected) if computed else (computed, placeholders),
        "A request that was preempted still waits for its results: placeholders are taken back all the same.",
        "do both counters depend on the same condition in your code?",
    )
    yield (
        (taken(num_rejected)[0], placeholders),
        "Rejected drafts were counted as placeholders too, if there are any.",
        f"num_output_placeholders is {placeholders}, and holds places for rejected drafts. Which line changes it?",
    )
    yield (
        (computed, taken(num_rejected)[1]),
        "Rejected drafts are taken back from both counters.",
        "which line of yours changes num_computed_tokens?",
    )
    yield (
        (taken(num_rejected)[0], placeholders - num_rejected),
        "Without placeholders there are none to give back.",
        "what is num_output_placeholders in a step that waits for nothing, and may it fall below 0?",
    )
    yield (
        (computed - num_rejected, placeholders - num_rejected),
        "A counter that is 0 has nothing to take back.",
        "what are the two counters of a victim, and of a step that waits for nothing?",
    )
    yield (
        (taken(num_rejected)[0], 0),
        "Only the placeholders of rejected drafts are given back: the others are filled when their tokens arrive.",
        f"num_output_placeholders is {placeholders}, and {num_rejected} drafts were rejected. What is left?",
    )
