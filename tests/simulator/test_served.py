"""Percentiles and goodput, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.simulator.served import Served, Slo, percentiles, weighted_mean, weighted_percentiles
from course.simulator.workloads import TimedRequest

SAMPLES = st.lists(st.tuples(st.floats(0, 10), st.integers(1, 5)), min_size=1, max_size=30)


@given(SAMPLES, st.lists(st.sampled_from([1, 25, 50, 90, 99, 100]), max_size=4))
def test_weights_count_as_so_many_values(samples: list[tuple[float, int]], percents: list[float]) -> None:
    values = sorted(value for value, count in samples for _ in range(count))
    expected = [values[-(-int(percent) * len(values) // 100) - 1] for percent in sorted(percents)]
    assert weighted_percentiles(samples, sorted(percents)) == expected
    assert weighted_mean(samples) == pytest.approx(sum(values) / len(values))


def test_percentiles_of_nothing_are_0_and_bad_percents_are_refused() -> None:
    assert percentiles([], [50, 99]) == [0.0, 0.0]
    assert weighted_mean([]) == 0.0
    for percents in ([0], [101], [99, 50]):
        with pytest.raises(ValueError, match="percents must rise"):
            percentiles([1.0], percents)


def test_a_good_request_keeps_both_limits() -> None:
    requests = [TimedRequest(float(n), 10, 5, n) for n in range(4)]
    served = Served(requests, first_token_times=[0.5, 2.5, 2.5, 3.5], finished_times=[0.9, 2.9, 4.5, 3.9])
    assert served.times_to_first_token == [0.5, 1.5, 0.5, 0.5]
    assert served.mean_inter_token_latencies == pytest.approx([0.1, 0.1, 0.5, 0.1])
    assert served.e2e_latencies == pytest.approx([0.9, 1.9, 2.5, 0.9])
    slo = Slo(time_to_first_token=1.0, inter_token_latency=0.2)
    assert served.share_good(slo) == 0.5
    assert served.seconds == 4.5
    assert served.goodput(slo) == pytest.approx(2 / 4.5)
    assert served.output_tokens_per_second == pytest.approx(20 / 4.5)


def test_an_slo_without_a_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="inter_token_latency of an SLO must be over 0 seconds, got 0"):
        Slo(1.0, 0)
