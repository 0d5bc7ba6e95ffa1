"""Scales, round ends, figures as text."""

import pytest

from course.views.bars import SHARE, bars
from course.views.chart import LogScale, PercentScale, beside, cloud
from course.views.figures import digits, memory, round_seconds, seconds
from course.views.picture import Picture
from tests.views.drawing import texts, tree


@pytest.mark.parametrize("low", [3e-4, 0.0102, 1.0, 7.5, 2e5])
@pytest.mark.parametrize("factor", [1.0, 1.7, 40, 1e6])
def test_a_scale_holds_its_values_between_round_ends(low: float, factor: float) -> None:
    scale = LogScale.around([low, low * factor], 50, 300)
    assert scale.low <= low <= low * factor < scale.high
    assert {f"{end:.0e}"[0] for end in (scale.low, scale.high)} <= {"1", "2", "5"}
    assert 50 <= scale(low) <= scale(low * factor) <= 300
    assert len(scale.ticks()) >= 2
    assert all(50 - 1e-6 <= scale(tick) <= 300 + 1e-6 for tick in scale.ticks())


def test_a_decade_is_as_long_as_any_other_and_nothing_leaves_the_scale() -> None:
    scale = LogScale(1, 1000, 0, 300)
    assert [scale(value) for value in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])
    assert (scale(0.001), scale(1e9)) == pytest.approx((0, 300))
    assert scale.ticks() == [1, 10, 100, 1000]
    assert LogScale(5, 50, 0, 1).ticks() == [5, 10, 20, 50]


def test_percentiles_are_spread_by_the_remaining_share() -> None:
    up = PercentScale(300, 0, most=99.9)
    assert [up(percent) for percent in (0, 90, 99, 99.9, 100)] == pytest.approx([300, 200, 100, 0, 0])


def test_a_label_is_clear_of_both_curves_and_near_its_point() -> None:
    assert 'x="17"' in beside((10, 50), 10, "12 ms", 0, 300)
    assert 'x="207"' in beside((200, 50), 100, "12 ms", 0, 300), "right of its own point, the other is on the left"
    left = beside((100, 50), 200, "12 ms", 0, 300)
    assert 'x="94"' in left
    assert "mv-end" in left, "left of its own point, the other is on the right"
    assert "mv-end" in beside((290, 50), 290, "12 ms", 0, 300), "there is no room on the right"
    assert cloud([], 2) == ""


def test_figures_have_three_digits_and_a_unit() -> None:
    assert [digits(value) for value in (0.1234, 9.996, 99.94, 99.96, 12_345.6, 13_195_049)] == [
        *("0.12", "10.0", "99.9", "100", "12,346", "13.2 M")
    ]
    assert [seconds(value) for value in (2.5e-6, 0.0123, 0.9996, 75.25)] == ["2.50 µs", "12.3 ms", "1.00 s", "75.2 s"]
    assert [memory(value) for value in (0, 1023, 128 * 2**10, 2**31)] == ["0 B", "1,023 B", "128 KiB", "2.00 GiB"]
    assert [round_seconds(value) for value in (0.0005, 0.02, 1, 2000)] == ["0.5 ms", "20 ms", "1 s", "2,000 s"]


def test_bars_far_apart_are_all_seen_on_a_log_axis_unless_it_is_a_share() -> None:
    values, texts_of = {"a": 0.0141, "b": 2.53, "c": 0.0}, {"a": "14.1 ms", "b": "2.53 s", "c": "0 s"}

    def lengths(picture: Picture) -> list[float]:
        return [float(bar.get("width", 0)) for bar in tree(picture).iterfind(".//{*}rect[@rx]")]

    far, share = bars("TTFT", values, texts_of), bars("TTFT", values, texts_of, others=SHARE)
    near = bars("TTFT", values | {"a": 0.085}, texts_of)
    assert lengths(far)[0] > 3 > lengths(share)[0] > lengths(share)[2] == lengths(far)[2] == 0
    assert texts(tree(far))[:4] == ["TTFT, log axis", "0.01", "0.1", "1"]
    assert texts(tree(near))[0] == texts(tree(share))[0] == "TTFT"
    assert far.text_alternative == share.text_alternative == near.text_alternative
