"""The size of widgets on the screen: text that can be read, nothing cut, no higher than a laptop's page."""

from collections.abc import Callable
from typing import Any

import pytest

from course.browser.bare_page import open_widget
from course.views.block_life import block_life
from course.views.drafts import draft_film
from course.views.film import Film
from course.views.hash_chain import hash_chain
from course.views.paged_batch import paged_batch
from course.views.show import player
from course.views.time_machine import compare, time_machine
from tests.views.runs import ahead, observed, small
from tests.views.test_time_machine_in_browser import BOXES, collisions

WIDTHS = (460, 600, 720, 1000, 1100)
MIN_TEXT, MAX_HEIGHT, PAGE_MARGIN = 12, 720, 16
# The size in px of each text on the screen.
SIZES = """() => [...document.querySelectorAll("svg text")].filter((text) => text.getClientRects().length)
  .map((text) => [text.textContent, parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a])"""
HEIGHT = "document.getElementById('host').getBoundingClientRect().height"
PICTURE = "document.querySelector('.mvw-picture svg').getBoundingClientRect().toJSON()"
FILMS: dict[str, Callable[[], Film]] = {
    "time machine": lambda: time_machine(observed()),
    "compare": lambda: compare(small(), small(caching=False), ("caching on", "caching off")),
    "block life": lambda: block_life(observed()),
    "paged batch": paged_batch,
    "drafts": lambda: draft_film(ahead()),
    "drafts planned ahead": lambda: draft_film(ahead(asynchronous=True)),
}


@pytest.mark.parametrize("name", FILMS)
def test_text_is_never_small_and_a_widget_fits_a_laptop(browser: Any, name: str) -> None:
    film = FILMS[name]()
    page = open_widget(browser, player(film))
    for width in WIDTHS:
        page.set_viewport_size({"width": width + PAGE_MARGIN, "height": 900})
        for step in (0, 6, len(film) - 1):
            page.evaluate("(step) => model.set('step', step)", min(step, len(film) - 1))
            page.wait_for_function("() => new Promise((done) => requestAnimationFrame(() => done(true)))")
            assert [text for text, size in page.evaluate(SIZES) if size < MIN_TEXT - 0.01] == []
            boxes, drawn = [box for box in page.evaluate(BOXES) if box[3] > box[1]], page.evaluate(PICTURE)
            assert collisions(boxes) == []
            cut = [box[0] for box in boxes if box[1] < 0 or box[3] > drawn["width"] or box[4] > drawn["height"]]
            assert (cut, drawn["right"] <= width + PAGE_MARGIN) == ([], True)
            assert width < 720 or page.evaluate(HEIGHT) <= MAX_HEIGHT
    page.close()


def test_two_runs_stand_side_by_side_where_there_is_room(browser: Any) -> None:
    page = open_widget(browser, player(FILMS["compare"]()), width=1000 + PAGE_MARGIN)
    first, second = (page.locator(f'[data-layer="{side}-budget"]') for side in ("first", "second"))
    assert first.bounding_box()["y"] == second.bounding_box()["y"]
    page.set_viewport_size({"width": 720 + PAGE_MARGIN, "height": 900})
    page.wait_for_function("document.querySelector('.mvw-picture svg').viewBox.baseVal.width === 720")
    assert second.bounding_box()["y"] > first.bounding_box()["y"] + 100
    page.close()


def test_the_legend_waits_behind_a_question_mark(browser: Any) -> None:
    page = open_widget(browser, player(FILMS["time machine"]()))
    meaning, legend = page.get_by_role("button", name="what the signs mean"), page.locator(".mvw-legend")
    assert (meaning.get_attribute("aria-expanded"), legend.is_visible()) == ("false", False)
    meaning.focus()
    page.keyboard.press("Enter")
    assert (meaning.get_attribute("aria-expanded"), legend.is_visible()) == ("true", True)
    assert "plan undone" in legend.text_content()
    page.keyboard.press("Enter")
    assert not legend.is_visible()
    page.close()


@pytest.mark.parametrize(("width", "drawn"), [(480, 460), (820, 720)])
def test_a_still_without_scripts_is_drawn_for_its_page(browser: Any, width: int, drawn: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_content(f'<body style="margin:0">{player(FILMS["paged batch"]()).picture().image()}')
    page.wait_for_function("document.querySelector('img').complete")
    assert page.locator("img").bounding_box()["width"] == drawn
    page.close()


@pytest.mark.parametrize(("width", "drawn"), [(480, 460), (820, 720)])
def test_a_picture_moves_into_its_page_in_the_drawing_for_it(browser: Any, width: int, drawn: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_content(f'<body style="margin:0">{hash_chain({"A": range(12), "B": range(8)}, 4).in_page()}')
    assert (page.locator("svg").bounding_box()["width"], page.locator("img, picture").count()) == (drawn, 0)
    page.close()
