"""Checks of `accept_drafts`: the rule as it is written, and the lists that were given."""

import random
from collections.abc import Sequence
from types import ModuleType

from course.labtest.expect import expect_equal, explained
from course.labtest.phase7.accept_mistakes import RULE_OF_ACCEPTED, accept_mistakes, symptom_of_accepted
from course.labtest.phase7.answers import list_of
from course.labtest.phase7.identify import identified


def naive_accepted(drafts: Sequence[int], sampled: Sequence[int]) -> list[int]:
    """Count the right drafts from the front; keep one token more."""
    num_right = 0
    while num_right < len(drafts) and drafts[num_right] == sampled[num_right]:
        num_right += 1
    return list(sampled[: num_right + 1])


def check_accepted(phase7: ModuleType, drafts: list[int], sampled: list[int]) -> None:
    """Compare the tokens that are kept of a step."""
    given = list(drafts), list(sampled)
    situation = f"drafts {given[0]}, sampled {given[1]}"
    with explained([situation], rule=RULE_OF_ACCEPTED):
        answer = phase7.accept_drafts(drafts, sampled)
    yours, expected = list_of(answer, "accept_drafts"), naive_accepted(*given)
    rule, hint = "", ""
    if yours != expected:

        def ask(pair: tuple[list[int], list[int]]) -> list[int]:
            return list_of(phase7.accept_drafts(*map(list, pair)), "accept_drafts")

        rng = random.Random(1)
        others = [random_pair(rng) for _ in range(200)]
        found = identified(given, others, ask, lambda pair: accept_mistakes(*pair, naive_accepted(*pair)))
        rule, hint = found or symptom_of_accepted(*given, expected, yours)
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
