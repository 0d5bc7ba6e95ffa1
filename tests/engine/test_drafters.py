"""Phase 7's reference by itself: what it proposes, how often it tries, which rows it wants, what it accepts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.drafts.drafting_runner import AdaptiveDraftLength
from mini_vllm.runner.fake_model_runner import FakeModelRunner
from solutions.phase7_speculative_decoding import (
    accept_drafts,
    propose_by_lookup,
    select_logits_rows,
)


def looked_up(tokens: list[int], num_drafts: int, shortest: int, longest: int) -> list[int]:
    """Return the drafts by the rule as it is written: try every length and every place."""
    for length in range(longest, shortest - 1, -1):
        for start in range(len(tokens) - length):
            if tokens[start : start + length] == tokens[len(tokens) - length :]:
                return tokens[start + length : start + length + num_drafts]
    return []


@given(
    tokens=st.lists(st.integers(0, 2), min_size=8, max_size=30),
    num_drafts=st.integers(1, 6),
    shortest=st.integers(1, 3),
    more=st.integers(0, 3),
)
def test_prompt_lookup_follows_its_rule(tokens: list[int], num_drafts: int, shortest: int, more: int) -> None:
    drafts = propose_by_lookup(tokens, num_drafts, shortest, shortest + more)
    assert drafts == looked_up(tokens, num_drafts, shortest, shortest + more)


def test_the_longest_match_comes_first_and_of_equals_the_earliest() -> None:
    assert propose_by_lookup([8, 3, 7, 8, 2, 7, 8], 2, 1, 3) == [2, 7]
    assert propose_by_lookup([8, 1, 5, 8, 2, 5, 8], 2, 1, 1) == [1, 5]
    assert propose_by_lookup([1, 2, 3], 2, 1, 3) == []
    assert propose_by_lookup([4, 4], 3, 1, 3) == [4]
    assert propose_by_lookup([4], 3, 1, 3) == []


def test_a_text_that_cannot_be_guessed_is_tried_ever_more_rarely() -> None:
    length, tried = AdaptiveDraftLength(4, 0.1), {}
    for step in range(200):
        if num_drafts := length.next_length():
            tried[step] = num_drafts
            length.observe(num_drafts, 0)
    assert list(tried.values()) == [4, 2, *[1] * 13]
    assert list(tried) == [*range(6), 7, 10, 15, 24, 41, 74, 107, 140, 173]
    while (num_drafts := length.next_length()) == 0:
        pass
    assert num_drafts == 1, "the first try after a pause is a small one"
    for _ in range(2):
        length.observe(1, 1)
    assert length.next_length() > 0
    assert length.next_pause == 1, "the pauses begin anew"


def test_dear_drafts_begin_with_few() -> None:
    cheap, dear = AdaptiveDraftLength(4, 0.1), AdaptiveDraftLength(4, 0.4)
    assert [cheap.next_length(), dear.next_length()] == [4, 2]
    lengths = []
    for _ in range(4):
        lengths.append(dear.next_length())
        dear.observe(lengths[-1], lengths[-1])
    assert lengths == [2, 3, 4, 4]


@pytest.mark.parametrize(
    ("right_of_four", "cost", "expected"), [(4, 0.4, 4), (1, 0.4, 1), (0, 0.4, 0), (1, 0.1, 2), (3, 0.1, 4)]
)
def test_as_many_drafts_as_pay(right_of_four: int, cost: float, expected: int) -> None:
    """With 1 right, the share settles at 1/2: at a cost of 0.1 two drafts bring 1.75 for 1.2, three 1.88 for 1.3."""
    length = AdaptiveDraftLength(4, cost)
    for _ in range(30):
        length.observe(4, right_of_four)
    length.pause = 0
    assert length._best_length() == expected
    assert length.next_length() == max(1, expected)


def test_rows_and_acceptance_follow_the_drafts() -> None:
    plain, drafted = Request("A", [1, 2, 3]), Request("B", [4, 5])
    batch = [
        ScheduledRequest(plain, 0, 2, [1], needs_token=False),
        ScheduledRequest(drafted, 1, 3, [2], needs_token=True, draft_token_ids=(8, 9)),
        ScheduledRequest(plain, 2, 1, [1], needs_token=True),
    ]
    assert select_logits_rows(batch) == [2, 3, 4, 5]
    assert accept_drafts((8, 9), [8, 9, 1]) == [8, 9, 1]
    assert accept_drafts((8, 9), [8, 7, 1]) == [8, 7]
    assert accept_drafts((8, 9), [7, 9, 1]) == [7]
    assert accept_drafts((), [7]) == [7]


def test_a_runner_that_ignores_drafts_samples_behind_the_last_known_token() -> None:
    request = Request("A", [4, 5, 6])
    plain, ignoring = (FakeModelRunner(4, 4) for _ in range(2))
    undrafted = plain.execute_model([ScheduledRequest(request, 0, 3, [1], needs_token=True)])
    drafted = ScheduledRequest(request, 0, 5, [1, 2], needs_token=True, draft_token_ids=(7, 8))
    assert ignoring.execute_model([drafted]) == undrafted
