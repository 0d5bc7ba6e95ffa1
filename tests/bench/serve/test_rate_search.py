"""The search for the highest rate, on servers of known capacity."""

from collections.abc import Callable

import pytest

from bench.serve.answer import ClientAnswer
from bench.serve.completion import Round
from bench.serve.load import RateSearch, ratio
from bench.serve.report import RoundReport, report


def probe_of(
    capacity: float, ttft: float = 0.1, fails: Callable[[float], bool] = lambda rate: False
) -> Callable[[float], RoundReport]:
    """Return a server that answers `capacity` requests a second, one after another, each with one token."""

    def probe(rate: float) -> RoundReport:
        answers, free = [], 0.0
        for number in range(200):
            sent = number / rate
            free = max(free, sent) + 1 / capacity
            answers.append(ClientAnswer(sent, sent, free, [sent + ttft], num_output_tokens=1, finish_reason="stop"))
        if fails(rate):
            answers[-1].error = "HTTP 429"
        return report(Round(answers, [0.0], free, 0.0))

    return probe


def search_rate(probe: Callable[[float], RoundReport], first: float, bound: float, num_probes: int) -> RateSearch:
    search = RateSearch(bound, first)
    for _ in range(num_probes):
        search.record(rate := search.next_rate(), probe(rate))
    return search


@pytest.mark.parametrize("first", [1.0, 7.0, 100.0])
def test_the_search_closes_in_on_the_capacity(first: float) -> None:
    search = search_rate(probe_of(10.0), first, bound=1.0, num_probes=12)
    assert search.highest is not None
    assert search.lowest_failed is not None
    assert search.highest < search.lowest_failed < 1.05 * search.highest
    assert 10.0 <= search.highest <= 12.0, "10% of the requests may be left over"
    assert len(search.probed) == 12


def test_late_first_tokens_and_failed_requests_do_not_hold() -> None:
    late = search_rate(probe_of(1e6, ttft=1.1), 8.0, bound=1.0, num_probes=3)
    assert (late.highest, late.lowest_failed) == (None, 2.0)
    assert [probed.rate for probed in late.probed] == [8.0, 4.0, 2.0]
    refusing = search_rate(probe_of(1e6, fails=lambda rate: rate > 5), 4.0, bound=1.0, num_probes=4)
    assert [probed.num_failed for probed in refusing.probed] == [0, 1, 1, 0]
    assert refusing.highest == pytest.approx(4 * 2**0.25)


def test_without_a_limit_the_rate_is_doubled() -> None:
    search = search_rate(probe_of(1e9), 4.0, bound=1.0, num_probes=3)
    assert (search.highest, search.lowest_failed) == (16.0, None)


def test_the_ratio_needs_a_rate_on_both_sides() -> None:
    fast, slow = (search_rate(probe_of(capacity), capacity, 1.0, 3) for capacity in (30.0, 10.0))
    assert ratio(fast, slow) == pytest.approx(3.0)
    assert ratio(fast, RateSearch(1.0, 1.0)) is None
    assert ratio(RateSearch(1.0, 1.0), slow) is None


@pytest.mark.parametrize(("rate", "left_over"), [(5.0, 0.0), (9.9, 0.0), (20.0, 0.5), (40.0, 0.75)])
def test_what_is_left_over_is_the_share_above_the_capacity(rate: float, left_over: float) -> None:
    assert probe_of(10.0)(rate).left_over == pytest.approx(left_over, abs=0.02)
