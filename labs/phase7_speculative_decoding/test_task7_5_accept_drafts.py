"""Graded tests of task 7.5."""

import random
from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.expect import expect_equal, explained
from mini_vllm_labs.grading.labtest.phase7.lookups import new_objects
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.labtest.whole_numbers import list_of
from mini_vllm_labs.pictures.text import counted

RULE_OF_ACCEPTED = (
    "A step's tokens are what the model samples, up to the first one that differs from its draft; that one included."
)


def check_accepted(phase7: ModuleType, answers: Answers, drafts: list[int], sampled: list[int]) -> None:
    """Compare the tokens that are kept of a step."""
    given = list(drafts), list(sampled)
    drafts, sampled = new_objects(drafts), new_objects(sampled)
    situation = f"drafts {given[0]}, sampled {given[1]}"
    with explained([situation], rule=RULE_OF_ACCEPTED):
        answer = phase7.accept_drafts(drafts, sampled)
    yours = list_of(answer, "accept_drafts")
    place = next((place for place, (one, other) in enumerate(zip(*given, strict=False)) if one != other), -1)
    expect_equal(
        yours,
        answers(yours),
        rule=RULE_OF_ACCEPTED,
        situation=situation,
        hint=f"draft and sampled token differ first at place {place}, counted from 0. What does your list hold up to "
        "there, and what after it?"
        if place >= 0
        else f"{counted(len(drafts), 'draft')}, and none is wrong: how many tokens does the step bring?",
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
    kinds = rng.choice([(0, 1, 2), (300, 151_643, 2**31 + 1), (2**31 + 1, 1, 0)])
    drafts = [rng.choice(kinds) for _ in range(rng.choice([rng.randint(0, 6), 20]))]
    sampled = [token if rng.random() < rng.choice([0.7, 0.97]) else rng.choice(kinds) for token in drafts]
    return drafts, [*sampled, rng.choice(kinds)]


@pytest.mark.parametrize(
    ("drafts", "sampled"),
    [
        ([8, 9, 4], [8, 9, 4, 1]),  # all right: three drafts and a token more
        ([8, 9, 4], [8, 9, 5, 1]),
        ([8, 9, 4], [8, 7, 4, 1]),
        ([8, 9, 4], [7, 9, 4, 1]),  # the first is wrong: as in a plain step
        ([8], [8, 1]),
        ([8], [7, 1]),
        ([], [7]),
    ],
)
def test_the_tokens_up_to_the_first_wrong_draft_are_kept(
    phase7: ModuleType, answers: Answers, drafts: list[int], sampled: list[int]
) -> None:
    check_accepted(phase7, answers, drafts, sampled)


def test_a_right_draft_behind_a_wrong_one_does_not_count(phase7: ModuleType, answers: Answers) -> None:
    check_accepted(phase7, answers, [1, 2, 3, 4], [9, 2, 3, 4, 5])
    check_accepted(phase7, answers, [1, 2, 3, 4], [1, 9, 3, 4, 5])
    check_accepted(phase7, answers, [6, 6, 6], [6, 7, 6, 6])
    check_accepted(phase7, answers, [8, 9, 4], [8, 4, 9, 1])  # what is sampled is another draft
    check_accepted(phase7, answers, [8, 9, 4], [4, 9, 4, 1])


def test_large_ids_are_compared_by_their_value(phase7: ModuleType, answers: Answers) -> None:
    check_accepted(phase7, answers, [300, 151_643, 2**31], [300, 151_643, 2**31, 5])
    check_accepted(phase7, answers, [300, 2**31 + 5, 7], [300, 5, 7, 7])  # equal in 31 bits
    check_accepted(phase7, answers, [256, 257], [0, 1, 9])  # equal in 8 bits
    check_accepted(phase7, answers, [8, -1, -1], [8, 4, 6, 2])  # a stand-in is never right


def test_token_0_can_be_right_and_wrong(phase7: ModuleType, answers: Answers) -> None:
    check_accepted(phase7, answers, [0, 5], [0, 5, 2])
    check_accepted(phase7, answers, [0, 0], [0, 0, 0])
    check_accepted(phase7, answers, [5, 0], [5, 2, 0])
    check_accepted(phase7, answers, [5, 3], [5, 0, 1])
    check_accepted(phase7, answers, [0], [4, 0])


@pytest.mark.parametrize("seed", range(3))
def test_random_drafts_against_a_count_from_the_front(phase7: ModuleType, answers: Answers, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        check_accepted(phase7, answers, *random_pair(rng))
