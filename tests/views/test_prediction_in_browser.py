"""Questions, verdicts and cards in a real browser, using only the keyboard: no answer is shown before lock-in."""

from dataclasses import replace
from typing import Any

import pytest

from mini_vllm_labs.pictures.browser.bare_page import open_widget
from mini_vllm_labs.pictures.picture import read_asset
from mini_vllm_labs.pictures.prediction import Answer, Card, Question, is_right
from mini_vllm_labs.pictures.prediction.widgets import Ask, Deck, Reveal
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.pictures.time_machine import time_machine
from tests.chromium import Pages
from tests.views.runs import small

NUMBER = Question("How many steps?", "how many", unit="steps")
WHICH = Question("Which one waits?", "which one", "choice", ("A", "B", "neither"))
SEVERAL = Question("Which ones run?", "which ones", "several", ("A", "B", "C"))


def focused(page: Any) -> str:
    words: str = page.evaluate("document.activeElement.textContent || document.activeElement.value")
    return words


@pytest.fixture
def asked(pages: Pages) -> Any:
    return open_widget(pages, Ask("group", [NUMBER, WHICH, SEVERAL], []))


def test_all_kinds_are_answered_and_locked_by_keyboard(asked: Any) -> None:
    for key in ("Tab", "1", "2", "Tab", "Space", "ArrowDown", "Tab", "Space", "Tab", "Tab", "Space", "Tab", "Enter"):
        asked.keyboard.press(key)
    assert asked.evaluate("model.state.answers") == [12, "B", ["A", "C"]]
    assert asked.evaluate("model.saved") == 1
    assert asked.locator("input").count() == 0, "an answer cannot be changed"
    assert "12 steps" in asked.locator(".mvq-said").text_content()
    assert focused(asked).startswith("Locked.")


def test_an_open_question_is_not_locked_and_gets_the_focus(asked: Any) -> None:
    asked.keyboard.press("Tab")
    asked.keyboard.type("12")
    asked.keyboard.press("Enter")
    assert asked.evaluate("model.state.answers") == []
    assert asked.get_by_role("status").text_content() == "1 of 3 answered"
    assert focused(asked) == "A"


def test_every_input_has_a_name_and_a_visible_focus(asked: Any) -> None:
    for role, name in (("spinbutton", "How many steps? steps"), ("radio", "neither"), ("checkbox", "C")):
        one = asked.get_by_role(role, name=name, exact=True)
        one.focus()
        asked.keyboard.press("Shift+Tab")
        asked.keyboard.press("Tab")
        assert asked.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", role
    assert asked.get_by_role("group", name="Which one waits?").count() == 1


BELOW = """async ([source, state]) => { window.player = { ...model, state };
  const module = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  module.default.render({ model: player, el: document.body.appendChild(document.createElement("div")) }); }"""


ASKED: dict[tuple[str, str, Answer | None], str] = {
    ("Step 2: how many tokens?", "how many", 9.0): "show step 2",
    ("How many does r1 compute then?", "how many", 2.0): "show step 2, r1",
    ("r0 waits. When does r1 resume?", "in which step", 5.0): "show step 5, r1",
    ("Which one is preempted for r2?", "which one", "r0"): "show step 5, r0",
    ("How many are computed in all?", "how many", 99.0): "",
    ("When does r1 resume?", "in which step", None): "show r1",
    ("How many tokens does step 999 compute?", "how many", 1.0): "",
}


@pytest.mark.parametrize("word", ["step", "row"])
def test_a_verdict_marks_in_the_player_below_what_it_is_about(pages: Pages, word: str) -> None:
    shown = player(replace(time_machine(small()), word=word))
    questions = [Question(text, subject) for text, subject, _ in ASKED]
    page = open_widget(pages, Reveal("g", questions, [1.0] * len(ASKED), [truth for *_, truth in ASKED], shown.film))
    page.evaluate(BELOW, [shown._esm, {name: getattr(shown, name) for name in ("film", "step", "follow", "speed")}])
    found = page.locator(".mvq-show").all_text_contents()
    names = ["show r1", "show r1", "show r0", "show r1"]  # these questions point to the rows of a single step
    assert found == (names if word == "row" else [words for words in ASKED.values() if words])
    page.locator(".mvq-show").nth(len(found) - 2).press("Enter")
    assert page.evaluate("[player.state.step, player.state.follow]") == [5 * (word == "step"), "request:0"]
    assert page.locator(".mv-followed").count()
    assert page.locator(".mv-followed:not([data-request~='0'])").count() == 0


def card(title: str, question: Question, truth: Any) -> Card:
    claim, why, film = f"The claim of {title}.", f"Why {title}.", ("a run", time_machine(small()), 3)
    return Card(title, claim, "Two requests.", question, truth, why, "step 0", films=[film])


@pytest.fixture
def cards(pages: Pages) -> Any:
    return open_widget(pages, Deck([card("one", WHICH, "A"), card("two", NUMBER, 9), card("three", NUMBER, None)], {}))


def test_a_card_shows_its_run_once_it_is_answered(cards: Any) -> None:
    assert cards.locator("h3").text_content() == "1. one"
    assert cards.locator("svg").count() == 0
    assert "Why" not in cards.locator("#host").inner_text()
    cards.get_by_role("radio", name="B", exact=True).focus()
    cards.keyboard.press("Space")
    cards.keyboard.press("Enter")
    assert focused(cards).endswith("You said “B”, but “A” is the answer.")
    cards.locator(".mvw-picture svg").wait_for()
    assert cards.locator(".mvw-step").text_content() == "step 3 of 12"
    cards.get_by_role("button", name="previous step", exact=True).press("Enter")
    assert cards.locator(".mvw-step").text_content() == "step 2 of 12"
    assert "Why one." in cards.locator("#host").inner_text()
    assert cards.get_by_text("The run as text").count() == 1
    assert cards.evaluate("model.state.answers") == {"one": "B"}
    cards.get_by_role("button", name="Next card", exact=True).press("Enter")
    assert focused(cards) == "2. two"
    cards.get_by_role("spinbutton").focus()
    cards.keyboard.type("9")
    cards.keyboard.press("Enter")
    assert "You said 9: right." in focused(cards)
    assert cards.locator(".mvq-total").text_content() == "1 of 2 right, 0 to go"


def test_a_card_that_the_run_did_not_decide_is_not_counted(cards: Any) -> None:
    cards.get_by_role("combobox", name="card").select_option("2")
    cards.get_by_role("spinbutton").fill("1")
    cards.keyboard.press("Enter")
    assert "The run did not show it." in focused(cards)
    assert cards.locator(".mvq-total").text_content() == "0 of 2 right, 2 to go"


@pytest.mark.parametrize("width", [600, 1100])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_overflows(pages: Pages, width: int, dark: bool) -> None:
    page = open_widget(pages, Deck([card("one", SEVERAL, ["A"])], {"one": ["A", "B"]}), dark=dark)
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    smallest = "[...document.querySelectorAll('#host *')].map((e) => parseFloat(getComputedStyle(e).fontSize))"
    assert page.evaluate(f"Math.min(...{smallest}.filter((size) => size > 0))") >= 10.5


@pytest.mark.parametrize(
    ("question", "said", "truth", "right"),
    [
        (NUMBER, 3, 3.0, True),
        (NUMBER, 3, 4, False),
        (replace(NUMBER, factor=1.5), 3, 4, True),
        (replace(NUMBER, factor=1.5), 0, 4, False),
        (replace(NUMBER, factor=1.5), -3, 4, False),
        (replace(NUMBER, factor=1.5), -3, -4, True),
        (WHICH, "A", "A", True),
        (WHICH, "A", "B", False),
        (SEVERAL, ["B", "A"], ["A", "B"], True),
        (SEVERAL, ["A"], ["A", "B"], False),
    ],
)
def test_the_page_and_the_recall_call_the_same_answers_right(
    pages: Pages, question: Question, said: Answer, truth: Answer, right: bool
) -> None:
    page = open_widget(pages, Ask("group", [question], []))
    script = f"(asked) => {{ {read_asset('prediction/questions.js')} return isRight(...asked); }}"
    assert page.evaluate(script, [question.as_json(), said, truth]) == is_right(question, said, truth) == right


def test_a_card_without_a_run_has_no_run_to_open(pages: Pages) -> None:
    page = open_widget(pages, Deck([Card("Recall", "A claim.", "", WHICH, "A", "Because.", "")], {}))
    page.get_by_role("radio", name="B").focus()
    for key in ("Space", "Enter"):
        page.keyboard.press(key)
    assert "“A” is the answer." in page.locator(".mvq-verdict").text_content()
    assert page.locator("details").count() == 0
