"""Delays from moving a slider or knob to seeing the new picture: tests the method, not the times."""

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from mini_vllm_labs.bench.pages import WidgetKnob, delays, drag, films, measure_pages, step_through
from mini_vllm_labs.cli.bench import pages as command
from mini_vllm_labs.pictures.browser.chromium import NoBrowserError, find_chromium, headless_chromium
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.panels import Panel
from tests.cli.conftest import Commands
from tests.views.test_base import KNOBS, budget_picture

BUDGET = WidgetKnob("budget", "budget", lambda: Panel(KNOBS, budget_picture))


def test_every_page_is_measured(browser: Any) -> None:
    found = list(measure_pages(browser, 2, 20))
    assert [one.title for one in found] == [
        *("time machine, 20 blocks", "time machine, 2,000 blocks", "live page, replay"),
        *("calculator", "policy bench, SLO", "policy bench, load", "engine panel"),
        *(f"dial, {workload}" for workload in ("mixed", "documents", "burst", "chat")),
    ]
    assert all(len(one.sides["first picture"].values) == 2 for one in found)
    assert all(min(side.values) > 0 for one in found for side in one.sides.values())
    assert all(int(one.notes[0].partition(" KiB")[0].replace(",", "")) > 10 for one in found)
    assert [one.title for one in found if len(one.sides) > 1] == ["engine panel"]


def test_a_picture_that_is_not_its_steps_is_refused(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, film = next(films())
    monkeypatch.setattr("mini_vllm_labs.bench.pages.player", lambda film: SimpleNamespace())
    monkeypatch.setattr("mini_vllm_labs.bench.pages.open_widget", lambda *_: FalsePage())
    with pytest.raises(RuntimeError, match="the slider is at step 5, but the picture shows"):
        step_through(browser, "time machine", Film(list(film.pictures)), 1)


class FalsePage:
    """Always shows the same picture, whatever the step."""

    def evaluate(self, *_: Any) -> float:
        return 1.0

    def locator(self, _: str) -> Any:
        return SimpleNamespace(get_attribute=lambda _: "Step 0 of another film")


def test_every_move_of_a_drag_is_answered_with_its_own_picture(browser: Any) -> None:
    panel = Panel(KNOBS, budget_picture)
    [(name, side)] = drag(browser, WidgetKnob("budget", "budget", lambda: panel), 4).sides.items()
    assert (name, len(side.values)) == ("first picture", 4), "the first answer is the whole one"
    assert min(side.values) > 0
    assert panel.values["budget"] == 64, "the right end of the knob"


def test_a_move_without_an_answer_is_reported(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm_labs.bench.pages.SECONDS", 0.5)
    monkeypatch.setattr("mini_vllm_labs.pictures.browser.bare_page.answer_of", lambda *_: {})
    with pytest.raises(RuntimeError, match="the page did not respond to move 1 of the knob"):
        drag(browser, BUDGET, 1)


def test_the_command_prints_delays_their_targets_and_bytes(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = delays("engine panel", [9.0, 20.0, 40.0], 600.0, 100.0, 2**20)
    monkeypatch.setattr(command, "headless_chromium", lambda: nullcontext(SimpleNamespace(version="150")))
    monkeypatch.setattr("mini_vllm_labs.bench.pages.measure_pages", lambda *_: iter([slow]))
    shown = " ".join(mini_vllm("bench", "pages").output.split())
    assert "20 (9 to 40) final picture █" in shown
    assert "1,024 KiB; aim: at most 100 ms at first, 500 ms at last: missed" in shown
    record = json.loads(mini_vllm("bench", "pages", "--json").stdout)
    assert (record["chromium"], record["cases"][0]["sides"]["final picture"]["values"]) == ("150", [600.0])


def test_without_a_browser_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "")
    assert find_chromium() is None
    with pytest.raises(NoBrowserError, match="install your system's package"), headless_chromium():
        pass
