"""Known mistakes in `take_placeholders`: what each leaves, the rule that it breaks, and a hint."""

import random
from collections.abc import Iterator

from course.labtest.phase8.symptoms import ADDED, EVERY_TOKEN, SAMPLES_OR_NOT, STAND_INS, Taking
from course.views.text import counted

AS_PLANNED = "The placeholders of a step follow from the drafts that were scheduled, not from the most that may be."


def random_taking(rng: random.Random, most: int) -> Taking:
    """Return a chunk of a prompt, or a step that samples, with steps in flight and drafts."""
    prompt, outputs = rng.randint(2, 9), rng.randint(0, 5)
    if rng.random() < 0.4:
        return Taking(prompt, outputs, 0, rng.randint(1, prompt + outputs - 1), 0, most)
    before, drafts = rng.choice([0, 1, 1 + most, rng.randint(0, 2 * most)]), rng.randint(0, most)
    return Taking(prompt, outputs, before, prompt + outputs + before + drafts, drafts, most)


def placeholder_mistakes(taking: Taking) -> Iterator[tuple[int, str, str]]:
    """Yield the placeholders that a mistake leaves, the rule that it breaks, and a hint."""
    before, drafts, most, computed = (
        taking.placeholders,
        taking.num_drafts,
        taking.num_speculative_tokens,
        taking.computed,
    )
    known, all_of_it = taking.num_tokens, 1 + drafts
    if taking.samples:
        hint = f"{taking.line()}. Which of these does your condition use, and how?"
    else:
        hint = (
            f"{computed} of {known} known tokens are computed after this step. Which token would it sample, one that "
            "is not known yet?"
        )
    conditions = [
        computed == known + drafts,
        computed == known + before,
        computed == known,
        computed == taking.num_prompt + before + drafts,
        computed == taking.num_prompt + drafts,
        computed >= taking.num_prompt,
        computed > known + before + drafts,
        computed >= known + before + drafts - 1,
        computed + all_of_it == known + before,
        computed + drafts == known + before,
        True,
        False,
    ]
    for condition in conditions:
        yield before + all_of_it * condition, SAMPLES_OR_NOT, hint
    yield (
        before + all_of_it * (taking.samples and before == 0),
        ADDED,
        "your code takes placeholders only where there are none. Where are those of a second step counted?",
    )
    yield (
        all_of_it if taking.samples else before,
        ADDED,
        f"{counted(before, 'placeholder')} before this step, for results still to come. Where are they?",
    )
    for amount, rule, question in (
        (1, EVERY_TOKEN, "If all drafts are right, how many tokens arrive?"),
        (drafts, EVERY_TOKEN, "Which token comes behind right drafts?"),
        (max(1, drafts), EVERY_TOKEN, "Which token comes behind right drafts?"),
        (1 + 2 * drafts, EVERY_TOKEN, "How often does it count a draft?"),
        (1 + most, AS_PLANNED, f"At most {most} are allowed: which of the two numbers is in that?"),
        (1 + most * (drafts > 0), AS_PLANNED, f"At most {most} are allowed: which of the two numbers is in that?"),
    ):
        took = f"your code took {amount} for {counted(drafts, 'draft')}. {question}"
        yield before + amount * taking.samples, rule, took


def stand_in_mistakes(taking: Taking) -> Iterator[tuple[list[int], str, str]]:
    """Yield the drafts that a mistake leaves, the rule that it breaks, and a hint."""
    most, drafts = taking.num_speculative_tokens, taking.num_drafts
    this_step = f"this step verifies {counted(drafts, 'draft')}. Does that say anything about the next one?"
    how_many = f"at most {counted(most, 'draft')}: how many stand-ins does your code make?"
    other = "another object, for 3 drafts more, was made after this one. Where does each keep its number?"
    for stand_ins, hint in (
        ([-1] * drafts, this_step),
        ([-1] * (1 + drafts), this_step),
        ([-1] * (most - drafts), this_step),
        ([-1] * (most if taking.num_outputs else 0), "which requests get no stand-ins from your code?"),
        ([-1] * (1 + most), how_many),
        ([-1] * max(1, most), how_many),
        ([-1], how_many),
        ([0] * most, "0 is the id of a real token, and -1 of none. What do yours stand for?"),
        ([-1] * (most + 3), other),
        ([], f"{taking.line()}, and your code leaves no drafts. Which line makes them, and under which condition?"),
    ):
        yield stand_ins if taking.samples else [], STAND_INS, hint
    yield (
        [-1] * most,
        SAMPLES_OR_NOT,
        "this step samples nothing, so the next one has known tokens to compute. Which requests get stand-ins?",
    )
