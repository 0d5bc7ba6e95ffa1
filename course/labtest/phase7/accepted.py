"""Checks of `accept_drafts`, and its mistakes."""

import random
from collections.abc import Iterator, Sequence
from types import ModuleType

from course.labtest.expect import expect_equal
from course.labtest.phase6.whole_numbers import whole_numbers
from course.labtest.phase7.identify import identified

RULE_OF_ACCEPTED = (
    "A step's tokens are what the model samples, up to the first one that differs from its draft; that one included."
)
HINT_OF_ACCEPTED = "compare draft 0 with sampled token 0, and so on: which sampled tokens belong to the text?"


def naive_accepted(drafts: Sequence[int], sampled: Sequence[int]) -> list[int]:
    """Count the right drafts from the front; keep one token more."""
    num_right = 0
    while num_right < len(drafts) and drafts[num_right] == sampled[num_right]:
        num_right += 1
    return list(sampled[: num_right + 1])


def check_accepted(phase7: ModuleType, drafts: list[int], sampled: list[int]) -> None:
    """Compare the tokens that are kept of a step."""
    given = list(drafts), list(sampled)
    answer = phase7.accept_drafts(drafts, sampled)
    situation = f"drafts {given[0]}, sampled {given[1]}"
    yours, expected = whole_numbers(answer, "accept_drafts"), naive_accepted(*given)
    rule, hint = RULE_OF_ACCEPTED, HINT_OF_ACCEPTED
    if yours != expected:

        def ask(pair: tuple[list[int], list[int]]) -> list[int]:
            return whole_numbers(phase7.accept_drafts(*map(list, pair)), "accept_drafts")

        rng = random.Random(1)
        others = [random_pair(rng) for _ in range(200)]
        rule, hint = identified(given, others, ask, lambda pair: accept_mistakes(*pair)) or (rule, hint)
    expect_equal(yours, expected, rule=rule, situation=situation, hint=hint)
    expect_equal(
        {"the drafts": drafts, "the sampled tokens": sampled, "your list is the sampled one": answer is sampled},
        {"the drafts": given[0], "the sampled tokens": given[1], "your list is the sampled one": False},
        rule="accept_drafts returns a list of its own and leaves the other two as they are.",
        situation=situation,
        hint="which of the lists do you change or return?",
    )


def random_pair(rng: random.Random) -> tuple[list[int], list[int]]:
    """Return drafts and samples, of which most are equal."""
    drafts = [rng.randint(0, 2) for _ in range(rng.randint(0, 6))]
    sampled = [token if rng.random() < 0.7 else rng.randint(0, 2) for token in drafts]
    return drafts, [*sampled, rng.randint(0, 2)]


def accept_mistakes(drafts: list[int], sampled: list[int]) -> Iterator[tuple[list[int], str, str]]:
    """Yield the tokens that a mistake keeps, the rule that it breaks, and a hint."""
    kept = naive_accepted(drafts, sampled)
    num_right = len(kept) - 1
    yield (
        kept if num_right == len(drafts) else kept[:-1],
        "In place of the first wrong draft stands what the model sampled there.",
        f"{num_right} drafts are right. Which token does the model sample behind them?",
    )
    yield (
        kept[:-1],
        "Each step samples one token more than it accepts drafts: the model's own, behind the last right draft.",
        f"{num_right} drafts are right. Which token does the model sample behind them?",
    )
    yield (
        [*kept[:-1], *drafts[num_right : num_right + 1]],
        "In place of the first wrong draft stands what the model sampled there.",
        "where the two differ, whose token do you keep?",
    )
    yield (
        sampled,
        "Behind a wrong draft nothing counts: the model has read a text that is not the answer's.",
        "which text did the model read when it sampled the last of these tokens?",
    )
    matching = [token for draft, token in zip(drafts, sampled, strict=False) if draft == token]
    yield (
        [*matching, sampled[len(drafts)]],
        "A draft behind a wrong one does not count, even if it is equal to the sampled token.",
        "after the first difference, does your loop go on?",
    )
    yield (
        [*matching, sampled[len(matching)]],
        "A draft behind a wrong one does not count, even if it is equal to the sampled token.",
        "how do you count the right drafts: all of them, or those before the first difference?",
    )
    yield (
        sampled[:1],
        "All right drafts count, not just the token of a plain step.",
        "how many drafts are right, and does your loop reach them?",
    )
    yield (
        kept[: len(drafts)],
        "Behind right drafts comes one token more, which no draft has guessed.",
        f"all {len(drafts)} drafts are right: how many tokens were sampled?",
    )
    yield (
        [*(draft for draft in drafts[:num_right]), *(drafts[num_right : num_right + 1] or sampled[-1:])],
        "In place of the first wrong draft stands what the model sampled there.",
        "where the two differ, whose token do you keep?",
    )
    up_to_zero = next((place for place, draft in enumerate(drafts) if not draft), len(drafts))
    yield (
        sampled[: min(up_to_zero, num_right) + 1],
        "Token 0 is a token like any other.",
        "which of your conditions is false for the number 0?",
    )
