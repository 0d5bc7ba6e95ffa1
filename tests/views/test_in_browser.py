"""The front ends alone, in a real browser: what a mouse, a keyboard and a screen reader get."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from course.browser.bare_page import open_widget
from course.views.film import Film
from course.views.knobs import Slide
from course.views.panels import FilmPanel, Panel
from course.views.picture import WIDTH, Picture
from course.views.widgets import Player
from tests.views.test_base import KNOBS, budget_picture, counter, counting


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


def test_a_moving_knob_asks_and_the_newest_value_wins(panel: Any) -> None:
    budget = panel.get_by_role("slider", name="token budget")
    panel.get_by_role("combobox", name="policy").select_option("priority")
    assert [q["values"] for q in asked(panel)] == [{"budget": 32, "policy": "priority", "caching": True}]
    box = budget.bounding_box()
    middle = box["y"] + box["height"] / 2
    panel.mouse.move(box["x"] + box["width"] / 2, middle)
    panel.mouse.down()
    panel.mouse.move(box["x"] + box["width"] - 9, middle, steps=5)
    assert len(asked(panel)) == 1, "one question is pending at a time"
    assert budget.get_attribute("aria-valuetext") == "64 tokens"
    panel.evaluate(ANSWER, [1, "first"])
    assert panel.locator("svg text").text_content() == "first"
    assert [q["values"]["budget"] for q in asked(panel)] == [32, 64], "the values in between were never sent"
    panel.evaluate(ANSWER, [asked(panel)[-1]["ticket"], "new"])
    assert panel.locator("svg text").text_content() == "new", "the mouse is still down"
    panel.mouse.up()
    assert len(asked(panel)) == 2, "the release asks nothing more"


def test_a_stale_answer_is_not_drawn(panel: Any) -> None:
    panel.get_by_role("checkbox").click()
    panel.evaluate(ANSWER, [0, "stale"])
    assert "32 fcfs True" in panel.locator("svg text").text_content()
    panel.evaluate(ANSWER, [1, "asked for"])
    assert panel.locator("svg text").text_content() == "asked for"


def test_a_busy_kernel_and_a_lost_one_are_told_in_words(panel: Any) -> None:
    status = panel.locator(".mvw-waiting")
    panel.get_by_role("checkbox").click()
    assert status.text_content() == "", "an answer within a second needs no words"
    panel.wait_for_function("document.querySelector('.mvw-waiting').textContent")
    assert status.text_content() == "Waiting for the kernel ..."
    panel.evaluate(ANSWER, [1, "at last"])
    assert status.text_content() == ""
    panel.evaluate("model.widget_manager = { kernel: { status: 'idle' } }")
    panel.get_by_role("checkbox").click()
    panel.wait_for_function("document.querySelector('.mvw-waiting').textContent")
    assert "The kernel was restarted or has stopped: run this cell again." in status.text_content()


def test_a_front_end_that_knows_of_the_restart_is_believed_at_once(panel: Any) -> None:
    panel.evaluate("document.body.classList.add('jupyter-widgets-disconnected')")
    panel.evaluate("for (const heard of listeners.comm_live_update) heard()")
    assert "run this cell again" in panel.locator(".mvw-waiting").text_content()


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


@dataclass(frozen=True)
class Count:
    """A run of as many steps as its knob says."""

    num_steps: int

    @property
    def comparison(self) -> list[tuple[str, str, str]]:
        return [("steps", "9", str(self.num_steps)), ("errors", "0", "0")]

    @property
    def sentence(self) -> str:
        return f"It counts to {self.num_steps}."

    def picture(self, step: int, width: float = WIDTH) -> Picture:
        return counter(step)

    def film(self) -> Film:
        return Film([counter(step) for step in range(self.num_steps)])


def test_a_player_under_knobs_has_the_steps_of_its_run(browser: Any) -> None:
    made = FilmPanel([Slide("num_steps", "steps", 9, 1, 20)], Count, step=8)
    page = open_widget(browser, made)
    step, knob = (page.get_by_role("slider", name=name, exact=True) for name in ("step", "steps"))
    step.wait_for()
    assert (step.get_attribute("max"), step.input_value()) == ("8", "8")
    assert page.locator(".mvw-turned").count() == 0, "nothing is changed yet"
    knob.fill("5")
    answer(page, made)
    assert page.locator("svg text").text_content() == "4", "the last step of the new run, before its film is there"
    assert page.locator(".mvw-turned").text_content() == "9 → 5steps"
    assert "It counts to 5." in page.locator(".mvw-tiles").text_content()
    page.wait_for_function("model.state.question.whole")
    answer(page, made)
    assert (step.get_attribute("max"), step.input_value()) == ("4", "4")
    step.press("ArrowLeft")
    assert page.locator("svg text").text_content() == "3"
    page.close()


def answer(page: Any, made: Panel) -> None:
    """Let Python answer the newest question of the page."""
    made.question = page.evaluate("model.state.question")
    news = {name: getattr(made, name) for name in ("film", "step", "answer") if made.has_trait(name)}
    page.evaluate("(news) => { for (const [name, value] of Object.entries(news)) model.set(name, value); }", news)


def test_in_a_wide_page_the_knobs_stand_beside_the_player(browser: Any) -> None:
    page = open_widget(browser, FilmPanel([Slide("num_steps", "steps", 9, 1, 20)], Count), width=1100)
    page.get_by_role("slider", name="step", exact=True).wait_for()
    knobs, player = (page.locator(part).bounding_box() for part in (".mvw-controls", "#host > .mvw"))
    assert knobs["x"] + knobs["width"] <= player["x"]
    assert abs(knobs["y"] - player["y"]) < 30
    page.close()
