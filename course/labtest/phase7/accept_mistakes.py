"""Mistakes in `accept_drafts`: the tokens that each keeps, the rule that it breaks, and a hint."""

from collections.abc import Iterator, Sequence

from course.views.text import counted

Mistake = tuple[list[int], str, str]
RULE_OF_ACCEPTED = (
    "A step's tokens are what the model samples, up to the first one that differs from its draft; that one included."
)
AT_LEAST_ONE = "Each step brings at least one token: what the model samples behind the known ones."
NOTHING_BEHIND = "Behind a wrong draft nothing counts: the model has read a text that is not the answer's."
IN_ITS_PLACE = "In place of the first wrong draft stands what the model sampled there."
ONE_MORE = "Behind right drafts comes one token more, which no draft has guessed."
RIGHT_COUNT = "All right drafts count, not just the token of a plain step."
DOES_NOT_COUNT = "A draft behind a wrong one does not count, even if it is equal to the sampled token."
TOKEN_0 = "Token 0 is a token like any other."


def symptom_of_accepted(
    drafts: Sequence[int], sampled: Sequence[int], kept: Sequence[int], yours: Sequence[int]
) -> tuple[str, str]:
    """Return (rule, hint) that holds for every mistake that keeps these tokens."""
    same = next((n for n, pair in enumerate(zip(yours, kept, strict=False)) if pair[0] != pair[1]), None)
    if same is not None:
        draft = f"draft {same} is {drafts[same]}" if same < len(drafts) else f"there is no draft {same}"
        return IN_ITS_PLACE if same < len(drafts) else ONE_MORE, (
            f"{draft}, and the model sampled {sampled[same]} there. Whose token is your {yours[same]}?"
        )
    if not yours:
        return (
            AT_LEAST_ONE,
            f"your list is empty, and the model sampled {counted(len(sampled), 'token')}. Which counts?",
        )
    if len(yours) > len(kept):
        wrong = len(kept) - 1
        return NOTHING_BEHIND, (
            f"draft {wrong} is {drafts[wrong]}, and the model sampled {sampled[wrong]} there. Which text did it read "
            "when it sampled the next one?"
        )
    last = len(yours) - 1
    if len(yours) == len(drafts):
        return ONE_MORE, f"all drafts are right, and your list ends with place {last}. Which sampled token is left?"
    return RULE_OF_ACCEPTED, (
        f"your list ends with place {last}, where draft and sampled token are {drafts[last]}. Is that draft wrong?"
    )


def accept_mistakes(drafts: list[int], sampled: list[int], kept: list[int]) -> Iterator[Mistake]:
    """Yield the tokens that a mistake keeps, the rule that it breaks, and a hint. `kept` are the right ones."""
    num_right = len(kept) - 1
    all_right = num_right == len(drafts)
    behind = f"right: {counted(num_right, 'draft')}. Which token does the model sample behind?"
    yield kept if all_right else kept[:-1], IN_ITS_PLACE, behind
    yield (
        kept[:-1],
        "Each step samples one token more than it accepts drafts: the model's own, behind the last right draft.",
        behind,
    )
    own = "where the two differ, whose token do you keep?"
    yield [*kept[:-1], *drafts[num_right : num_right + 1]], IN_ITS_PLACE, own
    yield [*kept[:-1], *(drafts[num_right : num_right + 1] or sampled[-1:])], IN_ITS_PLACE, own
    yield (
        [*kept[:-1], sampled[-1]],
        IN_ITS_PLACE,
        "your last token is the last sampled one. Which draft stands before it?",
    )
    yield sampled, NOTHING_BEHIND, "which text did the model read when it sampled the last of these tokens?"
    one_too_many = "your list goes on one place behind the first wrong draft. Which text did the model read there?"
    yield sampled[: num_right + 2], NOTHING_BEHIND, one_too_many
    yield from _right_behind_wrong(drafts, sampled)
    yield sampled[:1], RIGHT_COUNT, f"right: {counted(num_right, 'draft')}. Does your loop reach them?"
    hint = "one wrong draft makes yours leave out all of them. Up to which place were they right?"
    yield sampled if all_right else sampled[:1], RIGHT_COUNT, hint
    yield (
        kept[: len(drafts)],
        ONE_MORE,
        f"drafts: {len(drafts)}, sampled: {counted(len(sampled), 'token')}. Which is left?",
    )
    yield kept if drafts else [], AT_LEAST_ONE, "without drafts: what does a plain step bring?"
    up_to_zero = next((place for place, draft in enumerate(drafts) if not draft), len(drafts))
    yield sampled[: min(up_to_zero, num_right) + 1], TOKEN_0, "which of your conditions is false for the number 0?"
    shifted = 0
    while shifted < len(drafts) and drafts[shifted] == sampled[shifted + 1]:
        shifted += 1
    hint = "sampled token 0 stands at the place of draft 0. Which two do you compare?"
    yield sampled[: shifted + 1], "Draft i is compared with sampled token i.", hint


def _right_behind_wrong(drafts: list[int], sampled: list[int]) -> Iterator[Mistake]:
    matching = [token for draft, token in zip(drafts, sampled, strict=False) if draft == token]
    yield [*matching, sampled[len(drafts)]], DOES_NOT_COUNT, "after the first difference, does your loop go on?"
    hint = "how do you count the right drafts: all of them, or those before the first difference?"
    yield [*matching, sampled[len(matching)]], DOES_NOT_COUNT, hint
    yield sampled[: len(matching) + 1], DOES_NOT_COUNT, hint
    anywhere = 0
    while anywhere < len(drafts) and drafts[anywhere] in sampled:
        anywhere += 1
    hint = "at which place does your code look for a draft among the sampled tokens?"
    yield sampled[: anywhere + 1], "A draft is right if the token sampled at its place is equal to it.", hint
