"""Small charts: lengths in proportion, marks, texts that fit, and a text with every figure."""

import pytest

from course.palette import color
from course.views.bars import SMALL_WIDTH, bars, in_unit
from tests.views.drawing import SVG, is_sound, layers, texts, tooltips, tree

VALUES = {"1,000 blocks": 20.0, "2,000 blocks": 5.0, "8,000 blocks": 0.0}
TEXTS = {name: f"{value:g} s" for name, value in VALUES.items()}


def test_a_bar_is_as_long_as_its_value() -> None:
    picture = bars("TTFT", VALUES, TEXTS)
    lengths = [float(str(part.get("width"))) for part in layers(picture)["bars"].iter(f"{SVG}rect")]
    assert lengths == pytest.approx([lengths[0], lengths[0] / 4, 0], abs=0.01)
    assert lengths[0] > SMALL_WIDTH / 3
    assert is_sound(picture)


def test_every_figure_is_drawn_named_and_in_the_text() -> None:
    picture = bars("TTFT", VALUES, TEXTS)
    words = texts(tree(picture))
    assert {"TTFT", *VALUES, *TEXTS.values()} <= set(words)
    assert tooltips(layers(picture)["bars"]) == [f"{name}: {text}" for name, text in TEXTS.items()]
    assert picture.text_alternative == "TTFT: 20 s (1,000 blocks), 5 s (2,000 blocks), 0 s (8,000 blocks)"


def test_a_scale_may_go_beyond_the_values_and_a_name_may_have_none() -> None:
    half, none = bars("share", {"a": 0.5}, {"a": "50%", "b": "-"}, most=1), bars("nothing", {"a": 0}, {"a": "0"})
    whole = bars("share", {"a": 0.5}, {"a": "50%", "b": "-"})
    first, full = (float(str(next(layers(p)["bars"].iter(f"{SVG}rect")).get("width"))) for p in (half, whole))
    assert first == pytest.approx(full / 2, abs=0.01)
    assert "- (b)" in half.text_alternative
    assert "nothing: 0 (a)" in none.text_alternative


def test_a_mark_is_at_the_reference_and_in_words() -> None:
    picture = bars(
        "steps", {"a": 10, "b": 4}, {"a": "10", "b": "4"}, marks={"a": 8.0, "b": 0.0}, as_text="{:.0f}".format
    )
    found = [part for part in layers(picture)["bars"].iter() if "mv-reference" in str(part.get("class"))]
    bar = next(layers(picture)["bars"].iter(f"{SVG}rect"))
    start, length = (float(str(bar.get(name))) for name in ("x", "width"))
    place = float(str(found[0].get("d")).split()[0].removeprefix("M"))
    assert place == pytest.approx(start + 0.8 * length, abs=0.02)
    assert "10 (a, reference 8), 4 (b, reference 0)" in picture.text_alternative


def test_requests_have_their_colours_and_a_long_title_wraps() -> None:
    picture = bars("a very long title that has to go on in a second line", {"B": 1}, {"B": "1"}, indices={"B": 1})
    assert next(layers(picture)["bars"].iter(f"{SVG}rect")).get("fill") == color(1)
    assert len(texts(layers(picture)["heading"])) == 2
    assert in_unit({"a": 1234.4}, "ms") == {"a": "1,234 ms"}


def test_a_bold_title_wraps_before_it_is_cut() -> None:
    heading = bars("shortest-first: goodput per second", {"a": 1.0}, {"a": "1"}).layers[0].content
    assert heading.count("<text") == 2
