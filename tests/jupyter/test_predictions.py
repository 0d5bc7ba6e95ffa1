"""Predictions in a real JupyterLab: locked before the run opens, kept for the next Run All, and exported."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mini_vllm_labs.upkeep.jupyter.server import Screen
from tests.jupyter.conftest import Opener, exported

RUN = """
from mini_vllm_labs.notebook import Lab, Predictions, watch
from mini_vllm_labs.runs.workloads.small_workload import make_workload

asked = {{
    "How many steps does it take?": {{"number": "num_steps", "unit": "steps"}},
    "It takes more than two.": {{"claim": "num_steps > 2"}},
}}
guess = Predictions("{name}", questions={{"steps": asked}})
ran = Lab(phase=3, lineup="solution").play(make_workload(1, 4))
"""
ASK = 'guess.ask("steps")'
REVEAL = """
print("a line that tells the end")
guess.reveal("steps", watch(ran), ran)
"""
PICTURE = ".mvw-picture svg"
LIVE = '[data-live]:not([data-live=""])'
"""A widget of the kernel's: before it is drawn, its output without a kernel asks the same."""
IMAGE = 'img[src^="data:image/svg+xml"]'


def cells(name: str) -> tuple[str, ...]:
    return RUN.format(name=name), ASK, REVEAL, "guess.score()"


def seen(page: Any) -> str:
    """Return the text of the outputs as a reader sees it, on one line."""
    return " ".join(" ".join(page.locator(".jp-OutputArea").all_inner_texts()).split())


def answer(page: Any, number: str) -> None:
    """Enter a number and "true" and lock them, using only the keyboard."""
    page.get_by_role("spinbutton", name="How many steps does it take?").focus()
    page.keyboard.type(number)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")


def assert_closed(page: Any) -> None:
    page.get_by_role("button", name="Lock my answers").wait_for()
    assert "The run is folded." in seen(page)
    assert "tells the end" not in seen(page)
    assert "t was" not in seen(page)
    assert "right" not in seen(page).replace("0 of 2 predictions right", "")
    assert not page.locator(PICTURE).is_visible() if page.locator(PICTURE).count() else True


def num_steps(page: Any) -> str:
    return str(1 + int(page.locator(".mvw-bar input").first.get_attribute("max")))


@pytest.fixture
def screen(opened: Opener) -> Screen:
    return opened(*cells("first")).run_all()


def test_the_run_is_seen_once_the_answers_are_locked_and_they_are_kept(
    screen: Screen, opened: Opener, course: Path, tmp_path: Path
) -> None:
    page = screen.page
    assert_closed(page)
    answer(page, "3")
    page.locator(PICTURE).wait_for()
    truth = num_steps(page)
    assert f"You said 3, but it was {truth} steps." in seen(page)
    assert "You said “true”: right." in seen(page)
    assert "1 of 2 predictions right" in seen(page)
    assert "tells the end" in seen(page)
    assert page.evaluate("document.activeElement.className") == "mvq-note", "the focus is not lost"
    page.screenshot(path=tmp_path / "locked.png")
    kept = json.loads((course / "notebooks" / "first.predictions.json").read_text(encoding="utf-8"))
    assert list(kept["steps"].values()) == [3, "true"]
    again = opened(*cells("first")).run_all().page
    again.locator(PICTURE).wait_for()
    assert f"You said 3, but it was {truth} steps." in seen(again)
    again.get_by_role("button", name="Forget my answers").click()
    assert_closed(again)


def test_the_run_can_be_seen_without_an_answer(opened: Opener) -> None:
    page = opened(*cells("second")).run_all().page
    assert_closed(page)
    page.get_by_role("button", name="Show the run without an answer").click()
    assert f"It was {num_steps(page)} steps." in seen(page)
    assert "0 of 2 predictions right, 2 not answered" in seen(page)


def test_a_wrong_answer_comes_back_in_the_next_notebook_by_keyboard(opened: Opener, course: Path) -> None:
    kept = course / "notebooks" / "recall.json"
    kept.unlink(missing_ok=True)  # other notebooks in these tests also lack answers
    page = opened(*cells("fourth")).run_all().page
    page.locator(LIVE).nth(2).wait_for(state="attached")
    answer(page, "3")
    page.get_by_text("You said 3, but it was").wait_for()
    later = opened(RUN.format(name="fifth"), "guess.recall()").run_all().page
    later.locator(LIVE).wait_for()
    later.get_by_role("spinbutton", name="How many steps does it take?").focus()
    assert "Recall: fourth, steps" in seen(later)
    later.keyboard.type("4")
    later.keyboard.press("Enter")
    later.locator(".mvq-verdict").wait_for()
    assert "In fourth you said 3 steps." in seen(later)
    until = time.monotonic() + 30
    while '"due": 2' in kept.read_text(encoding="utf-8"):
        assert time.monotonic() < until, "the kernel did not keep the answer"
    # "fifth" was the second notebook, so it comes back in the third.
    assert [(one["said"], one["due"]) for one in json.loads(kept.read_text(encoding="utf-8"))["missed"]] == [(3, 3)]


def test_a_notebook_opened_again_shows_the_questions_and_no_error(opened: Opener, course: Path) -> None:
    """The notebook's widgets disappeared along with their kernel, and JupyterLab 4 shows "model not found" in place of
    each."""
    screen = opened(*cells("again")).run_all()
    screen.command("docmanager:save")
    page = opened(saved=course / screen.path).page
    page.get_by_role("button", name="Lock my answers").wait_for()
    missing = page.get_by_text("Error displaying widget")
    missing.first.wait_for(state="attached")
    assert [one.is_visible() for one in missing.all()] == [False] * missing.count()


def test_an_exported_page_asks_and_answers_offline(
    opened: Opener, course: Path, offline: Any, without_scripts: Any, tmp_path: Path
) -> None:
    screen = opened(*cells("third")).run_all()
    screen.page.get_by_role("button", name="Lock my answers").wait_for()
    truth = num_steps(screen.page)
    screen.command("docmanager:save")
    address = exported(course / screen.path, tmp_path)
    offline.goto(address)
    assert_closed(offline)
    answer(offline, "3")
    offline.locator(PICTURE).wait_for()
    assert f"You said 3, but it was {truth} steps." in seen(offline)
    assert "1 of 2 predictions right" in seen(offline)
    without_scripts.goto(address)
    assert not without_scripts.locator(IMAGE).is_visible()
    without_scripts.get_by_text("Open when you have answered").click()
    assert without_scripts.locator(IMAGE).is_visible()
    assert f"How many steps does it take? {truth} steps" in seen(without_scripts)
