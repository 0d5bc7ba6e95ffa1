"""The time machine in a real browser: nothing is cut or covered, and what is clicked is what is followed."""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import pytest

from course.browser.bare_page import open_widget
from course.views.film import Film
from course.views.show import player
from course.views.time_machine import compare, time_machine
from tests.views.runs import in_a_huge_pool, large, observed, small

# Every visible text as [words, left, top, right, bottom], trimmed a little: a font's box is higher than its letters.
BOXES = """() => [...document.querySelectorAll("svg text")].filter((t) => t.textContent).map((t) => {
  const box = t.getBoundingClientRect(), page = t.ownerSVGElement.getBoundingClientRect();
  return [t.textContent, box.left - page.left, box.top - page.top + 2.5, box.right - page.left,
    box.bottom - page.top - 2.5]; })"""


def collisions(boxes: list[list[Any]]) -> list[tuple[str, str]]:
    """Return the texts that lie on each other."""
    found = []
    for one, other in combinations(boxes, 2):
        apart = one[3] <= other[1] or other[3] <= one[1] or one[4] <= other[2] or other[4] <= one[2]
        if not apart:
            found.append((one[0], other[0]))
    return found


@pytest.mark.parametrize(
    "make_film",
    [
        lambda: time_machine(small()),
        lambda: time_machine(observed()),
        lambda: time_machine(observed("phase_1_alone")),
        lambda: time_machine(small(3, 40)),
        lambda: time_machine(large()),
        lambda: time_machine(in_a_huge_pool(small())),
        lambda: compare(small(), small(caching=False), ("caching on", "caching off")),
    ],
    ids=["small", "observed", "phase 1 alone", "many requests", "large", "huge pool", "compare"],
)
def test_no_text_is_cut_or_lies_on_another(browser: Any, make_film: Callable[[], Film]) -> None:
    film = make_film()
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


@pytest.fixture
def machine(browser: Any) -> Iterator[Any]:
    page = open_widget(browser, player(time_machine(observed())))
    errors: list[Any] = []
    page.on("pageerror", lambda error: errors.append(error))
    yield page
    assert errors == []
    page.close()


def test_every_step_in_the_browser_is_pythons_picture(browser: Any) -> None:
    """Forwards, backwards and in leaps, the player shows what Python drew."""
    film = time_machine(observed())
    page = open_widget(browser, player(film))
    plain = browser.new_page()
    for step in (0, 1, 2, 27, 6, 5, 17, 16, 3):
        page.evaluate("(step) => model.set('step', step)", step)
        plain.set_content(film[step].svg())
        layers = "[...document.querySelectorAll('[data-layer]')].map((part) => part.innerHTML)"
        assert page.evaluate(layers) == plain.evaluate(layers)
        assert page.locator("details pre").text_content() == film[step].text_alternative
    plain.close()
    page.close()


def test_a_block_is_followed_through_the_steps(machine: Any) -> None:
    machine.evaluate("model.set('step', 5)")
    machine.locator('[data-about="block:18"]').click()
    assert machine.evaluate("model.state.follow") == "block:18"
    assert machine.locator(".mvw-about").text_content() == "block 18: held by r3"
    machine.get_by_role("button", name="next step").click()
    assert machine.locator(".mvw-about").text_content() == (
        "block 18: held by r2, 1 of 4 slots used, taken in this step, old content lost"
    )
    assert machine.locator('[data-about="block:17"].mv-dim').count() == 1
    machine.locator(".mvw").focus()
    machine.keyboard.press("Escape")
    assert machine.locator(".mv-dim").count() == 0


def test_a_request_is_followed_and_others_fade(machine: Any) -> None:
    machine.evaluate("model.set('step', 6)")
    machine.locator('[data-about="request:3"] [data-request]').click()
    assert machine.evaluate("model.state.follow") == "request:3"
    assert machine.locator(".mvw-about").text_content().startswith("r3: preempted, 0 of 22 tokens computed")
    faded = machine.locator("[data-request].mv-dim").evaluate_all("(all) => all.map((part) => part.dataset.request)")
    assert "3" not in faded
    assert len(faded) > 10


def test_a_click_on_the_timeline_jumps_there(machine: Any) -> None:
    machine.locator('.mv-in-steps [data-go-to="17"]').click()
    assert machine.evaluate("model.state.step") == 17
    assert machine.locator('[data-layer="headline"] text').first.text_content() == "step 17 of 27"


def test_the_scale_is_switched_by_keyboard_and_remembered(machine: Any) -> None:
    switch = machine.get_by_role("button", name="a step as wide as its tokens")
    steps, time = (machine.locator(f'[data-layer="timeline-rows{end}"]').first for end in ("", "-time"))
    in_steps = machine.locator('.mv-in-steps [data-go-to="1"]').bounding_box()["width"]
    switch.focus()
    machine.keyboard.press("Enter")
    assert machine.evaluate("model.state.scale") == "time"
    assert switch.get_attribute("aria-pressed") == "true"
    assert machine.evaluate("model.saved") >= 1, "the kernel keeps it"
    first, last = (machine.locator(f'.mv-in-time [data-go-to="{step}"]').bounding_box()["width"] for step in (1, 25))
    assert first > 3 * last, "step 1 computes 24 tokens, step 25 one"
    assert (steps.locator("rect").first.is_visible(), time.locator("rect").first.is_visible()) == (False, True)
    machine.keyboard.press("Enter")
    assert machine.locator('.mv-in-steps [data-go-to="1"]').bounding_box()["width"] == in_steps
    assert machine.evaluate("model.state.scale") == "steps"


def test_dark_pages_get_dark_paper_and_readable_ink(browser: Any) -> None:
    page = open_widget(browser, player(time_machine(observed())), dark=True)
    paper = page.locator("svg > rect.mv-paper").evaluate("(rect) => getComputedStyle(rect).fill")
    ink = page.locator('[data-layer="headline"] text').first.evaluate("(text) => getComputedStyle(text).fill")
    assert (paper, ink) == ("rgb(17, 20, 24)", "rgb(230, 237, 243)")
    page.add_style_tag(content=":root { --jp-layout-color0: rgb(1, 2, 3); }")
    assert page.locator("svg > rect.mv-paper").evaluate("(rect) => getComputedStyle(rect).fill") == "rgb(1, 2, 3)"
    page.close()
