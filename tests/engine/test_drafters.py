"""How many drafts a request gets, and a runner that ignores them."""

import pytest

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.drafts.drafting_runner import AdaptiveDraftLength
from mini_vllm.runner.fake_model_runner import FakeModelRunner


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
    assert length.next_pause == 1, "the pauses start over"


def test_expensive_drafts_start_with_few() -> None:
    cheap, expensive = AdaptiveDraftLength(4, 0.1), AdaptiveDraftLength(4, 0.4)
    assert [cheap.next_length(), expensive.next_length()] == [4, 2]
    lengths = []
    for _ in range(4):
        lengths.append(expensive.next_length())
        expensive.observe(lengths[-1], lengths[-1])
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


def test_a_runner_that_ignores_drafts_samples_after_the_last_known_token() -> None:
    request = Request("A", [4, 5, 6])
    plain, ignoring = (FakeModelRunner(4, 4) for _ in range(2))
    undrafted = plain.execute_model([ScheduledRequest(request, 0, 3, [1], needs_token=True)])
    drafted = ScheduledRequest(request, 0, 5, [1, 2], needs_token=True, draft_token_ids=(7, 8))
    assert ignoring.execute_model([drafted]) == undrafted
