"""Named workloads: the number of requests and the rate asked for, and the same requests for the same seed."""

from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from course.simulator.workloads import SYSTEM_TOKENS, WORKLOADS, make_requests, prompt_of


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_requests_in_order(name: str) -> None:
    requests = make_requests(name, 300, rate=5.0, seed=3)
    assert requests == make_requests(name, 300, rate=5.0, seed=3)
    assert requests != make_requests(name, 300, rate=5.0, seed=4)
    assert len(requests) == 300
    assert all(before.arrival_time <= after.arrival_time for before, after in pairwise(requests))
    assert all(r.num_prompt_tokens >= 1 and r.num_output_tokens >= 1 for r in requests)
    assert len(list(requests[7].prompt_token_ids)) == requests[7].num_prompt_tokens


@pytest.mark.parametrize("name", WORKLOADS)
def test_requests_arrive_at_the_rate_asked_for(name: str) -> None:
    requests = make_requests(name, 20_000, rate=50.0)
    assert len(requests) / requests[-1].arrival_time == pytest.approx(50.0, rel=0.1)


def gaps(name: str) -> list[float]:
    return [after.arrival_time - before.arrival_time for before, after in pairwise(make_requests(name, 20_000, 1.0))]


def test_a_burst_varies_four_times_as_much_as_a_poisson_stream() -> None:
    assert pstdev(gaps("mixed")) / fmean(gaps("mixed")) == pytest.approx(1.0, rel=0.05)
    assert pstdev(gaps("burst")) / fmean(gaps("burst")) == pytest.approx(4.0, rel=0.1)


def test_prompts_agree_exactly_as_far_as_their_text_is_shared() -> None:
    requests = make_requests("chat", 400, rate=1.0)
    for request in requests:
        assert prompt_of(request).num_shared_tokens == SYSTEM_TOKENS
    conversations = [[r for r in requests if prompt_of(r).conversation == number] for number in range(400)]
    turns = next(found for found in conversations if len(found) > 1)
    first, second = list(turns[0].prompt_token_ids), list(turns[1].prompt_token_ids)
    assert second[: len(first)] == first
    assert len(second) > len(first) + turns[0].num_output_tokens
    other = next(r for r in requests if prompt_of(r).conversation != prompt_of(turns[0]).conversation)
    stranger = list(other.prompt_token_ids)
    assert stranger[:SYSTEM_TOKENS] == first[:SYSTEM_TOKENS]
    assert not set(stranger[SYSTEM_TOKENS:]) & set(first[SYSTEM_TOKENS:])


def test_some_passages_are_far_more_popular() -> None:
    asked = [prompt_of(request).shared_prefix for request in make_requests("shared-prefix", 10_000, 1.0)]
    assert asked.count(1) > 50 * asked.count(180)
    assert len(set(asked)) > 150
