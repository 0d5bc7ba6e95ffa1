"""The hash chain in a real browser: no text is cut or covered, and the panel asks for another token."""

from typing import Any

import pytest

from course.browser.bare_page import open_widget
from course.views.hash_chain import chain_panel, hash_chain, hits_of
from course.views.picture import Picture
from solutions.phase4_prefix_cache import HashPrefixCache, hash_block
from tests.views.test_hash_chain import PROMPTS, SALTS, A, forgets_the_parent, many
from tests.views.test_time_machine_in_browser import BOXES, collisions


@pytest.mark.parametrize(
    "picture",
    [
        hash_chain(PROMPTS, 4, hash_block, salts=SALTS, hits=hits_of(PROMPTS, HashPrefixCache(4), 4, SALTS)),
        hash_chain(many(), 16, hash_block, hits=hits_of(many(), HashPrefixCache(16), 16)),
        hash_chain(many(12, 1000), 4, hash_block),
        hash_chain(PROMPTS, 4, forgets_the_parent),
        hash_chain({"the first prompt": list(range(80)), "the second": [1]}, 4),
    ],
    ids=["five", "twelve", "long", "wrong", "content"],
)
def test_no_text_is_cut_or_lies_on_another(browser: Any, picture: Picture) -> None:
    page = browser.new_page(viewport={"width": 720, "height": 900})
    page.set_content(f'<body style="margin:0">{picture.svg()}')
    boxes = page.evaluate(BOXES)
    assert collisions(boxes) == []
    assert [
        box[0] for box in boxes if box[1] < 0 or box[3] > 720 or box[4] > page.locator("svg").bounding_box()["height"]
    ] == []
    page.close()


def test_the_panel_asks_python_and_shows_the_answer(browser: Any) -> None:
    page = open_widget(browser, chain_panel(A, hash_block), is_answered=True)
    page.locator('input[type="range"]').focus()
    page.keyboard.press("Home")
    page.wait_for_function(
        "model.state.answer.ticket === model.state.question.ticket && model.state.question.ticket > 1"
    )
    assert page.evaluate("model.state.question.values") == {"position": 0, "block_size": 4, "salted": False}
    assert page.locator('[data-layer="chain-1"] [data-first]').first.get_attribute("data-first") == "1"
    assert "token 0 is 11, not 10" in page.locator("details pre").text_content()
    page.close()
