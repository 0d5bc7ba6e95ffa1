"""Percentiles and goodput, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.simulator.served import Served, Slo
from course.simulator.summary import Spread
from course.workloads.percentiles import percentiles
from course.workloads.timed_request import TimedRequest

SAMPLES = st.lists(st.tuples(st.floats(0, 10), st.integers(1, 5)), min_size=1, max_size=30)


@given(SAMPLES, st.lists(st.integers(1, 100), max_size=4))
def test_a_value_counts_as_often_as_its_count_says(samples: list[tuple[float, int]], percents: list[int]) -> None:
    values = sorted(value for value, count in samples for _ in range(count))
    expected = [values[-(-percent * len(values) // 100) - 1] for percent in percents]
    assert percentiles(values, percents) == expected
    assert percentiles([value for value, _ in samples], percents, [count for _, count in samples]) == expected
    assert Spread.of(samples).mean == pytest.approx(sum(values) / len(values))


def test_percentiles_without_values_are_0_and_bad_percents_are_refused() -> None:
    assert percentiles([], [50, 99]) == [0.0, 0.0]
    assert Spread.of([]).mean == 0.0
    for percents in ([0], [101], [50, -1]):
        with pytest.raises(ValueError, match="percents must be over 0 and at most 100"):
            percentiles([1.0], percents)


def test_a_good_request_keeps_both_limits() -> None:
    requests = [TimedRequest(float(n), str(n), [1] * 10, 5) for n in range(4)]
    served = Served(requests, first_token_times=[0.5, 2.5, 2.5, 3.5], finished_times=[0.9, 2.9, 4.5, 3.9])
    assert served.times_to_first_token == [0.5, 1.5, 0.5, 0.5]
    assert served.mean_inter_token_latencies == pytest.approx([0.1, 0.1, 0.5, 0.1])
    assert served.e2e_latencies == pytest.approx([0.9, 1.9, 2.5, 0.9])
    slo = Slo(time_to_first_token=1.0, inter_token_latency=0.2)
    assert served.share_good(slo) == 0.5
    assert served.seconds == 4.5
    assert served.goodput(slo) == pytest.approx(2 / 4.5)
    assert served.output_tokens_per_second == pytest.approx(20 / 4.5)
