"""The front ends alone, in a real browser: what a mouse, a keyboard and a screen reader get."""

from collections.abc import Iterator
from typing import Any

import pytest

from course.browser.bare_page import open_widget
from course.views.widgets import Panel, Player
from tests.views.test_base import KNOBS, budget_picture, counting


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = open_widget(browser, Player(counting(12), speed=50))
    errors: list[Any] = []
    opened.on("pageerror", lambda error: errors.append(error))
    yield opened
    assert errors == []
    opened.close()


def shown(page: Any) -> str:
    """Return the step that the picture itself shows."""
    return str(page.locator('[data-layer="digit"] text').text_content())


def test_buttons_stop_at_both_ends(page: Any) -> None:
    page.get_by_role("button", name="previous step").click()
    assert shown(page) == "0"
    page.get_by_role("button", name="next step").click()
    assert (shown(page), page.evaluate("model.state.step")) == ("1", 1)
    page.get_by_role("button", name="last step").click()
    page.get_by_role("button", name="next step").click()
    assert shown(page) == "11"
    assert page.evaluate("model.saved") >= 2, "the kernel receives the new step"


def test_the_keyboard_moves_from_the_widget_and_from_its_slider(page: Any) -> None:
    page.locator(".mvw").focus()
    for key, step in [
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("PageDown", 11),
        ("Home", 0),
        ("End", 11),
    ]:
        page.keyboard.press(key)
        assert shown(page) == str(step)
    page.get_by_role("slider", name="step").focus()
    page.keyboard.press("ArrowLeft")
    assert shown(page) == "10", "one step, not two"
    page.get_by_role("button", name="first step").focus()
    page.keyboard.press("Enter")
    assert shown(page) == "0"


def test_play_runs_to_the_end_and_starts_again_from_the_beginning(page: Any) -> None:
    play = page.get_by_role("button", name="play or pause")
    page.locator(".mvw").focus()
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('.mvw').dataset.step === '11'")
    page.wait_for_function("document.querySelector('button[title=\"play or pause\"]').textContent.includes('play')")
    play.click()
    page.wait_for_function("document.querySelector('.mvw').dataset.step !== '11'")
    play.click()
    at = page.locator(".mvw").get_attribute("data-step")
    page.wait_for_timeout(100)
    assert page.locator(".mvw").get_attribute("data-step") == at


def test_text_follows_the_picture(page: Any) -> None:
    page.get_by_role("button", name="next step").click()
    assert page.locator("[aria-live=polite]").text_content() == "The counter shows 1."
    assert page.locator("svg").get_attribute("aria-label") == "counter, step 1. The counter shows 1."
    page.get_by_text("As text").click()
    assert page.locator("details pre").text_content() == "counter: 1"


def test_a_click_follows_a_request_and_a_second_click_stops(page: Any) -> None:
    digit = page.locator('[data-layer="digit"] text')
    digit.click()
    assert page.evaluate("model.state.follow") == "request:0"
    assert page.locator(".mvw-about").text_content() == "it is 0"
    assert page.get_by_label("follow a request").input_value() == "request:0"
    page.get_by_role("button", name="next step").click()
    assert page.locator(".mvw-about").text_content() == "not in this step"
    assert "mv-dim" in str(page.locator("[data-request]").get_attribute("class"))
    page.get_by_label("follow a request").select_option("request:1")
    assert "mv-followed" in str(page.locator("[data-request]").get_attribute("class"))
    digit.click()
    assert page.evaluate("model.state.follow") == ""


def test_every_focusable_part_blocks_the_notebooks_shortcuts(page: Any) -> None:
    missing = page.evaluate(
        "[...document.querySelectorAll('.mvw, .mvw button, .mvw input, .mvw select, .mvw summary')]"
        ".filter((part) => part.dataset.lmSuppressShortcuts !== 'true').length"
    )
    assert missing == 0


def test_python_can_set_the_step_and_removal_detaches_the_model_listeners(page: Any) -> None:
    page.evaluate("model.set('step', 7)")
    assert shown(page) == "7"
    page.evaluate("stop(); model.set('step', 3)")
    assert shown(page) == "7"


@pytest.fixture
def panel(browser: Any) -> Iterator[Any]:
    opened = open_widget(browser, Panel(KNOBS, budget_picture))
    errors: list[Any] = []
    opened.on("pageerror", lambda error: errors.append(error))
    yield opened
    assert errors == []
    opened.close()


ANSWER = """([ticket, words]) => model.set("answer",
  { ticket, svg: `<svg class="mv"><text>${words}</text></svg>`, sentence: words, text_alternative: words })"""


def asked(panel: Any) -> list[Any]:
    return [value for name, value in panel.evaluate("model.sent") if name == "question"]


def test_a_knob_sends_its_value_on_release_and_the_newest_value_wins(panel: Any) -> None:
    budget = panel.get_by_role("slider", name="token budget")
    panel.get_by_role("combobox", name="policy").select_option("priority")
    assert [q["values"] for q in asked(panel)] == [{"budget": 32, "policy": "priority", "caching": True}]
    budget.focus()
    for _ in range(3):
        panel.keyboard.press("ArrowRight")
    assert len(asked(panel)) == 1, "one pending request at a time"
    assert panel.locator("output").first.text_content() == "56 tokens"
    panel.evaluate(ANSWER, [1, "old"])
    assert [q["values"]["budget"] for q in asked(panel)] == [32, 56], "40 and 48 were never sent"
    assert "mvw-busy" in panel.locator("#host").get_attribute("class")
    panel.evaluate(ANSWER, [asked(panel)[-1]["ticket"], "new"])
    assert panel.locator("svg text").text_content() == "new"
    assert "mvw-busy" not in panel.locator("#host").get_attribute("class")


def test_a_refusal_shows_a_message_and_the_picture_stays(panel: Any) -> None:
    panel.get_by_role("checkbox").click()
    panel.evaluate("model.set('answer', { ticket: 1, error: 'caching needs phase 2' })")
    assert panel.get_by_role("alert").text_content() == "caching needs phase 2"
    assert "32 fcfs True" in panel.locator("svg text").text_content()


def test_knobs_set_from_python_move_on_the_page(panel: Any) -> None:
    panel.evaluate("model.set('question', {ticket: 5, values: {budget: 48, policy: 'priority', caching: false}})")
    assert panel.get_by_role("slider").input_value() == "48"
    assert panel.get_by_role("combobox").evaluate("(menu) => menu.selectedIndex") == 1
    assert not panel.get_by_role("checkbox").is_checked()
