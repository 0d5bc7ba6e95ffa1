"""How soon a picture follows its slider or knob: what is measured is right, how long it took is not tested."""

from typing import Any

import pytest

from course.browser.chromium import NoBrowserError, find_chromium, headless_chromium
from course.views.film import Film
from course.views.panels import Panel
from tests.views.test_base import KNOBS, budget_picture
from tools.widget_delays import ANSWER_MS, WidgetKnob, drag, films, report, scrub


def test_every_widget_is_measured(browser: Any) -> None:
    head, *lines = report(browser, 2, 20)
    assert "of 2 moves each; Chromium " in head
    assert [line.partition(" median")[0].rstrip() for line in lines] == [
        *(f"time machine, {blocks} blocks" for blocks in ("20", "200", "2,000")),
        *("calculator", "policy bench, SLO", "policy bench, load", "engine panel"),
        *(f"dial, {workload}" for workload in ("mixed", "documents", "burst", "chat")),
    ]


def test_a_picture_that_is_not_its_steps_is_refused(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, film = next(films())
    monkeypatch.setattr("tools.widget_delays.STEP", "(step) => 1")
    with pytest.raises(RuntimeError, match="the slider is at step 5, but the picture is"):
        scrub(browser, Film(list(film.pictures)), 1)


def test_every_move_of_a_drag_is_answered_with_its_own_picture(browser: Any) -> None:
    panel = Panel(KNOBS, budget_picture)
    times = drag(browser, WidgetKnob("budget", "budget", ANSWER_MS, lambda: panel), 4)
    assert len(times) == 4
    assert min(times) > 0
    assert panel.values["budget"] == 64, "the right end of the knob"


def test_a_move_without_an_answer_is_reported(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.widget_delays.SECONDS", 0.5)
    monkeypatch.setattr("course.browser.bare_page.answer_of", lambda *_: {})
    with pytest.raises(RuntimeError, match="move 1 of the knob was not answered"):
        drag(browser, WidgetKnob("budget", "budget", ANSWER_MS, lambda: Panel(KNOBS, budget_picture)), 1)


def test_without_a_browser_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "")
    assert find_chromium() is None
    with pytest.raises(NoBrowserError, match="install your system's package"), headless_chromium():
        pass
