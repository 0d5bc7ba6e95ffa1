"""Sizes on a screen: readable text, nothing cut or covered, and no picture taller than a laptop's screen."""

from itertools import combinations
from typing import Any

import pytest

from mini_vllm_labs.pictures.browser.bare_page import open_widget
from mini_vllm_labs.pictures.hash_chain import hash_chain
from mini_vllm_labs.pictures.paged_batch import paged_batch
from mini_vllm_labs.pictures.show import player
from tests.chromium import Pages, measure
from tests.views import test_gallery as gallery
from tests.views.svg_reader import is_sound

WIDTHS = (460, 600, 720, 1000, 1100)
MIN_TEXT, MAX_HEIGHT, PAGE_MARGIN = 12, 720, 16
HEIGHT = "document.getElementById('host').getBoundingClientRect().height"
RIGHT = "document.querySelector('.mvw-picture svg').getBoundingClientRect().right"
# The films that are drawn at every width.
FILMS = ("of a shipped trace", "compare", "block life of a shipped trace", "paged batch", "drafts", "drafts ahead")


def readable(page: Any, about: str = "") -> list[str]:
    """Check that no text on the page is cut off or covers any other text, and return the texts."""
    boxes = measure(page, "boxes")
    covered = [
        (one[0], two[0])
        for one, two in combinations(boxes, 2)
        if one[3] > two[1] and two[3] > one[1] and one[4] > two[2] and two[4] > one[2]
    ]
    assert (covered, [box[0] for box in boxes if box[5]]) == ([], []), about
    return [box[0] for box in boxes]


@pytest.mark.parametrize("name", [*gallery.FILMS, *gallery.CHAINS, *gallery.KNOBS])
def test_every_picture_is_sound_and_no_text_is_cut_or_lies_on_another(pages: Pages, name: str) -> None:
    page = pages.new_page(viewport={"width": 720, "height": 900})
    for picture in gallery.pictures_of(name):
        assert is_sound(picture)
        page.set_content(f'<body style="margin:0">{picture.svg()}')
        shortened = [words for words in readable(page, picture.text_alternative) if "…" in words]
        assert name not in gallery.KNOBS or all("before:" in words for words in shortened)


@pytest.mark.parametrize("name", FILMS)
def test_text_is_never_small_and_a_widget_fits_a_laptop(pages: Pages, name: str) -> None:
    film = gallery.FILMS[name]()
    page = open_widget(pages, player(film))
    for width in WIDTHS:
        page.set_viewport_size({"width": width + PAGE_MARGIN, "height": 900})
        for step in (0, 6, len(film) - 1):
            page.evaluate("(step) => model.set('step', step)", min(step, len(film) - 1))
            page.wait_for_function("() => new Promise((done) => requestAnimationFrame(() => done(true)))")
            assert [text for text, size in measure(page, "sizes") if size < MIN_TEXT - 0.01] == []
            readable(page)
            assert page.evaluate(RIGHT) <= width + PAGE_MARGIN
            assert width < 720 or page.evaluate(HEIGHT) <= MAX_HEIGHT


def test_two_runs_stand_side_by_side_where_there_is_room(pages: Pages) -> None:
    page = open_widget(pages, player(gallery.FILMS["compare"]()), width=1000 + PAGE_MARGIN)
    first, second = (page.locator(f'[data-layer="{side}-budget"]') for side in ("first", "second"))
    assert first.bounding_box()["y"] == second.bounding_box()["y"]
    page.set_viewport_size({"width": 720 + PAGE_MARGIN, "height": 900})
    page.wait_for_function("document.querySelector('.mvw-picture svg').viewBox.baseVal.width === 720")
    assert second.bounding_box()["y"] > first.bounding_box()["y"] + 100


@pytest.mark.parametrize(("width", "drawn"), [(480, 460), (820, 720)])
def test_a_still_is_drawn_for_its_page_as_image_and_as_drawing(pages: Pages, width: int, drawn: int) -> None:
    page = pages.new_page(viewport={"width": width, "height": 900})
    page.set_content(f'<body style="margin:0">{player(paged_batch()).picture().image()}')
    page.wait_for_function("document.querySelector('img').complete")
    assert page.locator("img").bounding_box()["width"] == drawn
    page.set_content(f'<body style="margin:0">{hash_chain({"A": range(12), "B": range(8)}, 4).in_page()}')
    assert (page.locator("svg").bounding_box()["width"], page.locator("img, picture").count()) == (drawn, 0)
