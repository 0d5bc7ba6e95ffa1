"""The lives of blocks in a real browser: no text is cut or covered, a block is followed through its life."""

from typing import Any

import pytest

from course.browser.bare_page import open_widget
from course.views.block_life import block_life
from course.views.film import Film
from course.views.show import player
from tests.views.runs import large, observed, small
from tests.views.test_time_machine_in_browser import BOXES, collisions


@pytest.mark.parametrize(
    "film",
    [block_life(small()), block_life(observed()), block_life(large()), block_life(small(5, 1), [1])],
    ids=["small", "observed", "large", "one block"],
)
def test_no_text_is_cut_or_lies_on_another(browser: Any, film: Film) -> None:
    page = browser.new_page(viewport={"width": 720, "height": 900})
    for picture in film.pictures[:: max(1, len(film) // 8)]:
        page.set_content(f'<body style="margin:0">{picture.svg()}')
        boxes = page.evaluate(BOXES)
        assert collisions(boxes) == []
        assert [
            box[0]
            for box in boxes
            if box[1] < 0 or box[3] > 720 or box[4] > page.locator("svg").bounding_box()["height"]
        ] == []
    page.close()


def test_a_block_is_followed_through_its_life(browser: Any) -> None:
    page = open_widget(browser, player(block_life(observed()), step=6))
    page.locator('[data-about="block:17"] text').click()
    assert page.evaluate("model.state.follow") == "block:17"
    assert page.locator(".mvw-about").text_content().endswith("step 6 free, content of r3 kept")
    assert page.locator('[data-layer="life-rows"] [data-block].mv-dim').count() == 11
    page.get_by_role("button", name="next step").click()
    assert page.locator(".mvw-about").text_content().endswith("steps 6-7 free, content of r3 kept")
    page.locator('[data-go-to="18"]').click()
    assert page.evaluate("model.state.step") == 18
    assert page.locator('[data-layer="headline"] text').first.text_content() == "step 18 of 27"
    page.close()


def test_a_request_is_followed_through_the_blocks_it_held(browser: Any) -> None:
    page = open_widget(browser, player(block_life(observed()), step=6))
    page.evaluate("model.set('follow', 'request:3')")
    bright = page.locator('[data-layer="life-rows"] [data-state]:not(.mv-dim)')
    assert set(bright.evaluate_all("(parts) => parts.map((part) => part.dataset.request)")) == {"3"}
    assert page.locator('[data-layer="life-rows"] [data-state].mv-dim').count() > 20
    page.close()
