"""The requests of the serving benchmark: when they arrive, how long they are, and what they share."""

import math
from itertools import combinations, pairwise, takewhile

import numpy as np
import pytest

from mini_vllm_labs.bench.serve.text_requests import DESCRIPTIONS, arrival_times, text_requests


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_the_gaps_have_the_mean_and_the_spread_of_their_distribution(burstiness: float) -> None:
    gaps = np.diff([0.0, *arrival_times(20_000, 50.0, burstiness, seed=1)])
    assert gaps.mean() == pytest.approx(1 / 50)
    assert gaps.std() / gaps.mean() == pytest.approx(1 / math.sqrt(burstiness), rel=0.05)
    if burstiness == 1:
        assert np.quantile(gaps, 0.5) == pytest.approx(math.log(2) / 50, rel=0.05), "a Poisson process"


def test_arrivals_end_after_count_over_rate_whatever_the_seed() -> None:
    for seed in range(5):
        times = arrival_times(30, 10.0, 0.5, seed)
        assert times[-1] == pytest.approx(3.0)
        assert all(before <= after for before, after in pairwise(times))
    assert arrival_times(30, 10.0, 0.5, 1) == arrival_times(30, 10.0, 0.5, 1) != arrival_times(30, 10.0, 0.5, 2)
    assert arrival_times(3, math.inf) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((0, 1.0), "at least 1, got 0"),
        ((1, 0.0), "request_rate must be greater than 0"),
        ((1, math.nan), "request_rate must be greater than 0"),
        ((1, 1.0, 0.0), "burstiness must be"),
        ((1, 1.0, math.inf), "burstiness must be"),
    ],
)
def test_impossible_arrivals_are_refused(arguments: tuple[int, float], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        arrival_times(*arguments)


def test_lengths_are_skewed_as_sharegpts_are() -> None:
    requests = text_requests("sharegpt", 5_000, math.inf, seed=3)
    prompts = np.array([len(request.prompt.split()) for request in requests])
    answers = np.array([request.max_tokens for request in requests])
    assert np.median(prompts) == pytest.approx(80, rel=0.1)
    assert prompts.mean() == pytest.approx(200, rel=0.1)
    assert np.median(answers) == pytest.approx(150, rel=0.1)
    assert answers.mean() == pytest.approx(204, rel=0.1)
    assert prompts.max() == answers.max() == 1024
    quarter = text_requests("sharegpt", 5_000, math.inf, scale=0.25, seed=3)
    assert np.mean([request.max_tokens for request in quarter]) == pytest.approx(answers.mean() / 4, rel=0.01)


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_the_same_seed_gives_the_same_requests_at_any_rate(name: str) -> None:
    slow, fast = text_requests(name, 20, 1.0, scale=0.1), text_requests(name, 20, 10.0, scale=0.1)
    assert [(one.prompt, one.max_tokens) for one in slow] == [(one.prompt, one.max_tokens) for one in fast]
    assert slow[-1].arrival_time == pytest.approx(20.0)
    assert fast[-1].arrival_time == pytest.approx(2.0)
    assert text_requests(name, 20, 1.0, scale=0.1, seed=9) != slow


def test_shared_prefixes_are_shared_and_nothing_else_is() -> None:
    def longest_shared(name: str) -> int:
        prompts = [request.prompt.split() for request in text_requests(name, 40, math.inf, scale=0.1)]
        pairs = [pair for pair in combinations(prompts, 2) if pair[0] != pair[1]]
        return max(len(list(takewhile(lambda two: two[0] == two[1], zip(*pair, strict=False)))) for pair in pairs)

    assert longest_shared("sharegpt") <= 4
    assert longest_shared("shared-prefix") in range(205, 212)  # a tenth of 2,048 words
