"""Graded tests of task 7.1."""

import random
from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.cost import check_keeps_nothing
from mini_vllm_labs.grading.labtest.expect import expect_equal, fail_with_smallest
from mini_vllm_labs.grading.labtest.phase7.lookups import (
    Lookup,
    check_lookup,
    check_reads,
    lookup_report,
    random_lookup,
    told_of_drafts,
)
from mini_vllm_labs.grading.labtest.recorded import Answers


@pytest.mark.parametrize(
    ("tokens", "num_drafts", "shortest", "longest"),
    [
        ([7, 8, 9, 5, 7, 8], 2, 1, 3),  # 7, 8 stood there before: 9, 5
        ([7, 8, 9, 5, 7, 8], 1, 1, 3),
        ([7, 8, 9, 5, 7, 8], 9, 1, 3),  # no more than follow
        ([3, 4, 5], 2, 1, 3),  # nothing is repeated
        ([3], 2, 1, 3),  # nothing stands before
        ([3, 3], 2, 1, 3),
        ([8, 1, 2, 8], 3, 1, 1),
    ],
)
def test_what_followed_the_newest_tokens_before(
    phase7: ModuleType, answers: Answers, tokens: list[int], num_drafts: int, shortest: int, longest: int
) -> None:
    check_lookup(phase7, answers, tokens, num_drafts, shortest, longest)


def test_the_longest_run_comes_first(phase7: ModuleType, answers: Answers) -> None:
    check_lookup(phase7, answers, [2, 1, 9, 3, 2, 8, 4, 3, 2], 1, 1, 3)  # [2]: 1, [3, 2]: 8
    check_lookup(phase7, answers, [2, 1, 9, 5, 4, 3, 2, 6, 3, 2, 7, 4, 3, 2], 1, 1, 3)  # [4, 3, 2]: 6
    check_lookup(phase7, answers, [2, 1, 9, 3, 2, 8, 4, 3, 2], 1, 1, 1)


def test_of_several_occurrences_the_first_one_counts(phase7: ModuleType, answers: Answers) -> None:
    check_lookup(phase7, answers, [6, 1, 5, 6, 2, 5, 6, 3, 6], 2, 1, 1)
    check_lookup(phase7, answers, [4, 6, 1, 9, 4, 6, 2, 9, 4, 6], 2, 1, 3)


@pytest.mark.parametrize(("shortest", "longest"), [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 5), (4, 6)])
def test_only_runs_between_minimum_and_maximum_are_looked_up(
    phase7: ModuleType, answers: Answers, shortest: int, longest: int
) -> None:
    # The newest 1, 2 and 3 tokens occur earlier, each in another place first.
    check_lookup(phase7, answers, [2, 11, 9, 3, 2, 12, 8, 4, 3, 2, 13, 4, 3, 2], 2, shortest, longest)


def test_the_newest_tokens_are_no_match_for_themselves(phase7: ModuleType, answers: Answers) -> None:
    check_lookup(phase7, answers, [1, 2, 9, 4, 2], 2, 1, 3)  # [4, 2] stands only at the end; [2] stands before it
    check_lookup(phase7, answers, [1, 2, 3, 4], 2, 1, 4)
    check_lookup(phase7, answers, [1, 2, 3, 4], 2, 4, 8)


def test_an_occurrence_may_overlap_with_the_newest_tokens(phase7: ModuleType, answers: Answers) -> None:
    check_lookup(phase7, answers, [5, 5, 5, 5], 3, 1, 3)
    check_lookup(phase7, answers, [9, 5, 6, 5, 6, 5], 4, 3, 3)


def test_a_text_may_be_shorter_than_the_runs(phase7: ModuleType, answers: Answers) -> None:
    for tokens in ([4], [4, 4], [4, 5, 4]):
        for shortest in (1, 2, 3):
            check_lookup(phase7, answers, tokens, 2, shortest, 5)


def test_token_0_is_a_token_like_any_other(phase7: ModuleType, answers: Answers) -> None:
    check_lookup(phase7, answers, [0, 0, 7, 0], 2, 1, 2)
    check_lookup(phase7, answers, [5, 0, 9, 5], 2, 1, 2)
    check_lookup(phase7, answers, [0, 3, 0], 2, 1, 2)
    check_lookup(phase7, answers, [3, 0, 4, 0, 3, 0], 1, 1, 2)


def test_ids_that_hold_others_are_other_tokens(phase7: ModuleType, answers: Answers) -> None:
    check_lookup(phase7, answers, [12, 3, 2, 4, 2], 2, 1, 2)  # 2 stands in 12, digit by digit
    check_lookup(phase7, answers, [1, 23, 9, 12, 3, 8, 12, 3], 1, 1, 2)
    check_lookup(phase7, answers, [300, 5, 7, 300], 2, 1, 2)
    check_lookup(phase7, answers, [2**16 + 5, 9, 5, 8, 5], 1, 1, 1)
    check_lookup(phase7, answers, [256, 9, 0, 8, 0], 1, 1, 1)


def test_the_drafts_are_a_list_of_their_own(phase7: ModuleType, answers: Answers) -> None:
    check_lookup(phase7, answers, [7, 8, 7], 9, 1, 3)
    check_lookup(phase7, answers, [4, 5, 6, 4], 9, 1, 3)
    text = [7, 8, 7]
    first = phase7.propose_by_lookup(text, 9, 1, 3)
    first.append(99)
    second = phase7.propose_by_lookup(text, 9, 1, 3)
    third = phase7.propose_by_lookup([4, 5, 6, 4], 9, 1, 3)
    expect_equal(
        {"the text": text, "first": list(first), "second": list(second), "third": list(third)},
        {"the text": [7, 8, 7], "first": [8, 7, 99], "second": [8, 7], "third": [5, 6, 4]},
        rule="Each call returns a new list: what the engine does with it changes neither the text nor other drafts.",
        situation="text [7, 8, 7]; the list that your first call returned got a 99, then the same call again, then one "
        "for the text [4, 5, 6, 4]; compared: all of them afterwards",
        hint="which list do you return, and what else refers to it?",
    )


def test_the_beginning_of_a_long_text_counts(phase7: ModuleType) -> None:
    text = [5, 6, 7, 8, *range(100, 100_000), 5, 6, 7]
    yours, expected = list(phase7.propose_by_lookup(text, 3, 2, 3)), [8, 100, 101]
    expect_equal(
        yours,
        expected,
        rule="The whole text is looked through, however long it is.",
        situation="a text of 99,907 tokens that begins with 5, 6, 7, 8, 100, 101 and ends with 5, 6, 7",
        hint=told_of_drafts(yours, expected, Lookup((), 3, 2, 3), "")["hint"]
        if yours
        else "which places of the text does your search look at, and for which runs?",
    )


def test_lookups_leave_nothing_behind(phase7: ModuleType) -> None:
    def use(name: str) -> None:
        number = int(name.split()[-1]) + (1000 if name.startswith("then") else 0)
        phase7.propose_by_lookup([number, 3, number], 2, 1, 3)

    rule = "Nothing is remembered between calls: a server would keep a copy of each text at each of its lengths."
    hint = "which list, dict or cache outside of the function does a call add to?"
    check_keeps_nothing(phase7, use, what="texts were looked through", rule=rule, hint=hint)


@pytest.mark.parametrize("seed", range(5))
def test_random_texts_against_every_length_and_place(phase7: ModuleType, answers: Answers, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest(lookup_report(phase7, answers, random_lookup(rng)) for _ in range(300))


def test_a_long_text_is_read_a_few_times(phase7: ModuleType, answers: Answers) -> None:
    size = 1000
    check_reads(phase7, answers, "all different", range(size))
    check_reads(phase7, answers, "all equal but for the last one", [1] * (size - 1) + [2])
    check_reads(phase7, answers, "1 and 2 in turns, then 1, 1, 3", [1, 2] * (size // 2) + [1, 1, 3])
    check_reads(phase7, answers, "whose newest tokens are at its front", [5, 6, 7, *range(10, size), 5, 6, 7])
