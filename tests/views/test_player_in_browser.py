"""A film in a real browser, used with a mouse, a keyboard and a screen reader."""

from typing import Any

import pytest

from mini_vllm_labs.pictures.browser.bare_page import open_widget
from mini_vllm_labs.pictures.paged_batch import paged_batch
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.pictures.time_machine import time_machine
from mini_vllm_labs.pictures.widgets import Player
from tests.chromium import Pages
from tests.views.runs import observed
from tests.views.test_base import counting

HEADLINE = '[data-layer="headline"] text'
KEYS = "ArrowRight 1, ArrowRight 2, ArrowLeft 1, PageDown 2, PageUp 1, Home 0, End 11"
UNGUARDED = """() => [...document.querySelectorAll(".mvw, .mvw button, .mvw input, .mvw select, .mvw summary")]
  .filter((part) => part.dataset.lmSuppressShortcuts !== "true").length"""


@pytest.fixture
def page(pages: Pages) -> Any:
    return open_widget(pages, Player(counting(12), speed=50))


@pytest.fixture
def machine(pages: Pages) -> Any:
    return open_widget(pages, player(time_machine(observed())))


def shown(page: Any) -> str:
    return str(page.locator('[data-layer="digit"] text').text_content())


def about(page: Any) -> str:
    return str(page.locator(".mvw-about").text_content())


def press(page: Any, button: str) -> None:
    page.get_by_role("button", name=button).click()


def test_buttons_stop_at_both_ends(page: Any) -> None:
    press(page, "previous step")
    assert shown(page) == "0"
    press(page, "next step")
    assert (shown(page), page.evaluate("model.state.step")) == ("1", 1)
    press(page, "last step")
    press(page, "next step")
    assert shown(page) == "11"
    assert page.evaluate("model.saved") >= 2, "the kernel receives the new step"


def test_the_keyboard_moves_from_the_widget_and_from_its_slider(page: Any) -> None:
    page.locator(".mvw").focus()
    for pressed in KEYS.split(", "):
        key, step = pressed.split()
        page.keyboard.press(key)
        assert shown(page) == step
    page.get_by_role("slider", name="step").focus()
    page.keyboard.press("ArrowLeft")
    assert shown(page) == "10", "one step, not two"
    page.get_by_role("button", name="first step").focus()
    page.keyboard.press("Enter")
    assert shown(page) == "0"
    assert page.evaluate(UNGUARDED) == 0, "every part that takes the focus blocks the notebook's shortcuts"


def test_play_runs_to_the_end_and_starts_again_from_the_beginning(page: Any) -> None:
    page.locator(".mvw").focus()
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('.mvw').dataset.step === '11'")
    page.wait_for_function("document.querySelector('button[title=\"play or pause\"]').textContent.includes('play')")
    press(page, "play or pause")
    page.wait_for_function("document.querySelector('.mvw').dataset.step !== '11'")
    press(page, "play or pause")
    at = page.locator(".mvw").get_attribute("data-step")
    page.wait_for_timeout(100)
    assert page.locator(".mvw").get_attribute("data-step") == at


def test_text_follows_the_picture(page: Any) -> None:
    press(page, "next step")
    assert page.locator("[aria-live=polite]").text_content() == "The counter shows 1."
    assert page.locator("svg").get_attribute("aria-label") == "counter, step 1. The counter shows 1."
    page.get_by_text("As text").click()
    assert page.locator("details pre").text_content() == "counter: 1"


def test_a_click_follows_a_request_and_a_second_click_stops(page: Any) -> None:
    digit = page.locator('[data-layer="digit"] text')
    digit.click()
    assert (page.evaluate("model.state.follow"), about(page)) == ("request:0", "it is 0")
    assert page.get_by_label("follow a request").input_value() == "request:0"
    press(page, "next step")
    assert about(page) == "not in this step"
    assert "mv-dim" in str(page.locator("[data-request]").get_attribute("class"))
    page.get_by_label("follow a request").select_option("request:1")
    assert "mv-followed" in str(page.locator("[data-request]").get_attribute("class"))
    digit.click()
    assert page.evaluate("model.state.follow") == ""


def test_python_can_set_the_step_and_removal_detaches_the_model_listeners(page: Any) -> None:
    page.evaluate("model.set('step', 7)")
    assert shown(page) == "7"
    page.evaluate("stop(); model.set('step', 3)")
    assert shown(page) == "7"


def test_every_step_in_the_browser_is_pythons_picture(pages: Pages, machine: Any) -> None:
    """Playing forwards, backwards or in leaps, the player shows what Python drew."""
    film, plain = time_machine(observed()), pages.new_page()
    for step in (0, 1, 2, 27, 6, 5, 17, 16, 3):
        machine.evaluate("(step) => model.set('step', step)", step)
        plain.set_content(film[step].svg())
        layers = "[...document.querySelectorAll('[data-layer]')].map((part) => part.innerHTML)"
        assert machine.evaluate(layers) == plain.evaluate(layers)
        assert machine.locator("details pre").text_content() == film[step].text_alternative


def test_a_block_is_followed_through_the_steps(machine: Any) -> None:
    machine.evaluate("model.set('step', 5)")
    machine.locator('[data-about="block:18"]').click()
    assert (machine.evaluate("model.state.follow"), about(machine)) == ("block:18", "block 18: held by r3")
    press(machine, "next step")
    assert about(machine) == "block 18: held by r2, 1 of 4 slots used, taken in this step, old content lost"
    assert machine.locator('[data-about="block:17"].mv-dim').count() == 1
    machine.locator(".mvw").focus()
    machine.keyboard.press("Escape")
    assert machine.locator(".mv-dim").count() == 0


def test_the_scale_is_switched_by_keyboard_and_remembered(machine: Any) -> None:
    switch = machine.get_by_role("button", name="a step as wide as its tokens")
    steps, time = (machine.locator(f'[data-layer="timeline-rows{end}"]').first for end in ("", "-time"))
    in_steps = machine.locator('.mv-in-steps [data-go-to="1"]').bounding_box()["width"]
    switch.focus()
    machine.keyboard.press("Enter")
    assert (machine.evaluate("model.state.scale"), switch.get_attribute("aria-pressed")) == ("time", "true")
    assert machine.evaluate("model.saved") >= 1, "the kernel keeps it"
    first, last = (machine.locator(f'.mv-in-time [data-go-to="{step}"]').bounding_box()["width"] for step in (1, 25))
    assert first > 3 * last, "step 1 computes 24 tokens, step 25 one"
    assert (steps.locator("rect").first.is_visible(), time.locator("rect").first.is_visible()) == (False, True)
    machine.keyboard.press("Enter")
    assert machine.locator('.mv-in-steps [data-go-to="1"]').bounding_box()["width"] == in_steps
    assert machine.evaluate("model.state.scale") == "steps"


def test_the_legend_waits_behind_a_question_mark(machine: Any) -> None:
    meaning, legend = machine.get_by_role("button", name="what the signs mean"), machine.locator(".mvw-legend")
    assert (meaning.get_attribute("aria-expanded"), legend.is_visible()) == ("false", False)
    meaning.focus()
    machine.keyboard.press("Enter")
    assert (meaning.get_attribute("aria-expanded"), legend.is_visible()) == ("true", True)
    assert "plan undone" in legend.text_content()
    machine.keyboard.press("Enter")
    assert not legend.is_visible()


def test_dark_pages_get_dark_paper_and_readable_ink(pages: Pages) -> None:
    page = open_widget(pages, player(time_machine(observed())), dark=True)
    fill = "(part) => getComputedStyle(part).fill"
    paper = page.locator("svg > rect.mv-paper")
    assert paper.evaluate(fill) == "rgb(17, 20, 24)"
    assert page.locator(HEADLINE).first.evaluate(fill) == "rgb(230, 237, 243)"
    page.add_style_tag(content=":root { --jp-layout-color0: rgb(1, 2, 3); }")
    assert paper.evaluate(fill) == "rgb(1, 2, 3)"


def test_a_click_on_a_token_shows_what_it_reads(pages: Pages) -> None:
    page = open_widget(pages, player(paged_batch()))
    assert page.get_by_role("slider", name="row").get_attribute("aria-valuetext") == "row 0 of 7"
    assert page.get_by_role("button", name="next row").is_visible()
    read = "(parts) => parts.map((part) => part.dataset.read).join(' ')"
    page.locator('[data-layer="row-page"] [data-go-to="4"]').click()
    assert page.locator("[data-read]").evaluate_all(read) == "12 13 14 15 24 25 26"
    page.locator('[data-layer="mask-all"] [data-go-to="1"]').click()
    assert page.locator("[data-read]").evaluate_all(read) == "8 9 20 21 22 23"
    page.locator('[data-about="block:5"]').click()
    assert about(page) == "block 5, slots 20 to 23: tokens of A in 4 of 4 slots, 4 of them read"
    page.locator(".mvw").focus()
    page.keyboard.press("End")
    assert page.locator(HEADLINE).first.text_content() == "row 7: C, position 2"
