"""Phase 7's reference by itself: what it proposes, how often it tries, which rows it wants, what it accepts."""

from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.fake_model_runner import FakeModelRunner
from solutions.phase7_speculative_decoding import (
    AdaptiveDraftLength,
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
    length, tried = AdaptiveDraftLength(4), []
    for step in range(200):
        if length.next_length() == 4:
            tried.append(step)
            length.observe(4, 0)
    assert tried == [0, 1, 2, 4, 7, 12, 21, 38, 71, 104, 137, 170]
    while length.next_length() == 0:
        pass
    length.observe(4, 4)
    assert [length.next_length(), length.next_length()] == [4, 4]
    for _ in range(3):
        length.observe(4, 0)
    assert [length.next_length(), length.next_length()] == [0, 4], "the pauses begin anew"


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
