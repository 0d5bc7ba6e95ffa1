"""Checks of `accept_drafts`."""

import random
from types import ModuleType

from course.labtest.expect import expect_equal, explained
from course.labtest.phase7.answers import list_of
from course.labtest.recorded import Answers

RULE_OF_ACCEPTED = (
    "A step's tokens are what the model samples, up to the first one that differs from its draft; that one included."
)


def check_accepted(phase7: ModuleType, answers: Answers, drafts: list[int], sampled: list[int]) -> None:
    """Compare the tokens that are kept of a step."""
    given = list(drafts), list(sampled)
    situation = f"drafts {given[0]}, sampled {given[1]}"
    with explained([situation], rule=RULE_OF_ACCEPTED):
        answer = phase7.accept_drafts(drafts, sampled)
    yours = list_of(answer, "accept_drafts")
    expect_equal(
        yours,
        answers(yours),
        rule=RULE_OF_ACCEPTED,
        situation=situation,
        hint="which is the first place where draft and sampled token differ, and what stands there in your list?",
    )
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
