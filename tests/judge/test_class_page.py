"""The teacher's page: right figures, no names unless asked for, nothing of a submission as markup."""

from html.parser import HTMLParser
from typing import Any

import pytest

from classroom.export.class_page import BINS, bin_of, class_page, figures, percent
from classroom.judge.results import ClassResults, SubmissionResult
from tests.judge.summaries import HOSTILE, phase, small_class, submission

VOID = ("meta", "br")


class Page(HTMLParser):
    """The tags, attributes and text of a page; it fails if tags are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def class_of(*submissions: SubmissionResult) -> ClassResults:
    return ClassResults("s", 4, True, list(submissions))


def test_the_figures_of_a_class() -> None:
    first, third = figures(small_class())
    assert (first.number, first.num_learners, first.num_written, first.num_broken) == (1, 8, 7, 1)
    assert dict(zip(BINS, first.bins, strict=True)) == {
        "none": 1, "up to 25%": 1, "up to 50%": 1, "up to 75%": 0, "below 100%": 0, "all": 4,
    }  # fmt: skip
    assert (first.median, first.max) == (40, 40)
    assert (third.num_written, third.num_broken, third.bins[-1]) == (7, 0, 1)
    queue = third.groups[0]
    assert (queue.title, queue.num_played, queue.num_lost) == ("the priority queue", 7, 3)
    assert queue.missed == pytest.approx((2 + 3 + 4) / 28)
    assert third.most_missed is third.groups[1]


def test_none_and_all_have_bins_of_their_own() -> None:
    shares = {0: "none", 0.01: "up to 25%", 0.25: "up to 25%", 0.26: "up to 50%", 0.75: "up to 75%", 0.99: "below 100%"}
    assert {share: BINS[bin_of(share)] for share in (*shares, 1)} == shares | {1: "all"}


def test_a_phase_that_was_not_written_has_no_figures() -> None:
    untouched = phase(1, 0.0)
    for group in untouched["groups"]:
        group["situations"] = ["not written"] * 4
    (found,) = figures(
        ClassResults("s", 4, True, [submission("ada", untouched), submission("bob", phase(1, file=False))])
    )
    assert (found.num_learners, found.num_written, found.groups, found.most_missed) == (2, 0, [], None)
    assert "Nothing was written." in class_page(class_of(submission("ada", untouched)), with_names=False)


@pytest.mark.parametrize("with_names", [False, True])
def test_names_only_if_asked_for_and_never_as_markup(with_names: bool) -> None:
    text = class_page(small_class(), with_names=with_names)
    page = Page(text)
    assert set(page.tags).isdisjoint({"script", "b", "a", "img", "link"})
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "\x1b" not in text
    assert "\u202e" not in text
    shown = [name for name in ("ada", "bob", *HOSTILE[:5]) if name in page.text]
    assert shown == (["ada", "bob", *HOSTILE[:5]] if with_names else [])
    assert "the-secret-seed" not in text


def test_the_headlines_name_the_hardest_phase_and_group() -> None:
    text = "".join(Page(class_page(small_class(), with_names=False)).text)
    assert "Most points were lost in Phase 3, preemption: the median is 10 of 40." in text
    assert "Missed most: which request to preempt in phase 3, " in text


def test_all_groups_that_were_missed_most_are_marked() -> None:
    text = class_page(class_of(submission("ada", phase(1, 1.0, 0.5, 0.5, 0.75))), with_names=False)
    assert text.count('<tr class="worst">') == 2
    perfect = class_page(class_of(submission("ada", phase(1, 1.0))), with_names=False)
    assert "<tr class" not in perfect


def test_the_bars_have_a_text_alternative() -> None:
    labels = [
        value for name, value in Page(class_page(small_class(), with_names=False)).attributes if name == "aria-label"
    ]
    assert labels[0] == (
        "Learners by their share of the points in phase 1. "
        "none: 1, up to 25%: 1, up to 50%: 1, up to 75%: 0, below 100%: 0, all: 4"
    )


def test_an_empty_class_and_a_perfect_one_have_pages() -> None:
    Page(class_page(ClassResults("s", 5, True, []), with_names=True))
    perfect = class_page(ClassResults("s", 4, False, [submission("ada", phase(1, 1.0))]), with_names=False)
    assert "No points were lost." in perfect
    assert "NOT isolated" in perfect
    assert "1 submission<" in perfect


def test_hardly_any_is_not_none() -> None:
    assert [percent(share) for share in (0, 0.001, 0.5, 0.999, 1)] == ["0%", "1%", "50%", "99%", "100%"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_window_and_its_text_is_large_enough(browser: Any, scheme: str) -> None:
    for width in (420, 1000):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.set_content(class_page(small_class(), with_names=False))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        sizes = "[...document.querySelectorAll('body *')].map(e => parseFloat(getComputedStyle(e).fontSize))"
        assert min(page.evaluate(sizes)) >= 12
        page.close()
