"""The paged batch in a real browser: no text is cut or covered, a click on a token shows what it reads."""

from typing import Any

import pytest

from course.browser.bare_page import open_widget
from course.views.film import Film
from course.views.paged_batch import paged_batch
from course.views.show import player
from tests.views.test_paged_batch import by_row_index, extremes, functions, random_batch
from tests.views.test_time_machine_in_browser import BOXES, collisions

FILMS = [
    paged_batch(),
    paged_batch(functions=functions(compute_slot_mapping=by_row_index)),
    paged_batch(random_batch(3, 5, 4), 4),
    *extremes(),
]


@pytest.mark.parametrize("film", FILMS, ids=["handout", "wrong", "five", "one", "twelve", "long"])
def test_no_text_is_cut_or_lies_on_another(browser: Any, film: Film) -> None:
    page = browser.new_page(viewport={"width": 720, "height": 900})
    for picture in film.pictures[:: max(1, len(film) // 5)]:
        page.set_content(f'<body style="margin:0">{picture.svg()}')
        boxes = page.evaluate(BOXES)
        assert collisions(boxes) == []
        assert [
            box[0]
            for box in boxes
            if box[1] < 0 or box[3] > 720 or box[4] > page.locator("svg").bounding_box()["height"]
        ] == []
    page.close()


def test_a_click_on_a_token_shows_what_it_reads(browser: Any) -> None:
    page = open_widget(browser, player(paged_batch()))
    slider = page.get_by_role("slider", name="row")
    assert slider.get_attribute("aria-valuetext") == "row 0 of 7"
    assert page.get_by_role("button", name="next row").is_visible()
    page.locator('[data-layer="row-page"] [data-go-to="4"]').click()
    assert page.evaluate("model.state.step") == 4
    read = "(parts) => parts.map((part) => part.dataset.read).join(' ')"
    assert page.locator("[data-read]").evaluate_all(read) == "12 13 14 15 24 25 26"
    page.locator('[data-layer="mask-all"] [data-go-to="1"]').click()
    assert page.locator("[data-read]").evaluate_all(read) == "8 9 20 21 22 23"
    page.locator('[data-about="block:5"]').click()
    assert page.locator(".mvw-about").text_content() == (
        "block 5, slots 20 to 23: tokens of A in 4 of 4 slots, 4 of them read"
    )
    page.locator(".mvw").focus()
    page.keyboard.press("End")
    assert page.locator('[data-layer="headline"] text').first.text_content() == "row 7: C, position 2"
    page.close()
