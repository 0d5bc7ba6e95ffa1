"""How soon the chunking dial answers: every workload is dragged; how long it took is not tested."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bench.cli import dial as command
from bench.dial import WORKLOADS
from bench.drag import BEST, Dragging, measure_drag
from course.views.panels import Panel
from tests.cli.conftest import Commands
from tests.views.test_base import KNOBS, budget_picture


@pytest.fixture(autouse=True)
def _this_browser(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two browsers cannot run in one process."""

    @contextmanager
    def running() -> Iterator[Any]:
        yield browser

    monkeypatch.setattr(command, "headless_chromium", running)


def test_the_budget_is_dragged_with_every_workload(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("bench", "dial", "--requests", "20", "--moves", "3", "--json").stdout)
    assert list(record) == list(WORKLOADS)
    assert {len(times) for times in record.values()} == {3}
    assert min(min(times) for times in record.values()) > 0


def test_the_chart_fits_a_terminal(mini_vllm: Commands) -> None:
    lines = mini_vllm("bench", "dial", "--requests", "20", "--moves", "1").output.splitlines()
    assert max(map(len, lines)) <= 100
    assert [line for line in lines if line.strip().startswith("documents")]


def test_every_move_of_a_drag_is_answered_with_its_own_picture(browser: Any) -> None:
    made: list[Panel] = []

    def make() -> Panel:
        made.append(Panel(KNOBS, budget_picture))
        return made[0]

    assert len(measure_drag(browser, Dragging("budget", BEST, "budget", make), 4).times) == 4
    assert made[0].values["budget"] == 64, "the right end of the knob"


def test_a_move_without_an_answer_is_reported(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.drag.SECONDS", 0.5)
    monkeypatch.setattr("course.browser.bare_page.answer_of", lambda *_: {})
    with pytest.raises(RuntimeError, match="move 1 of the knob was not answered"):
        measure_drag(browser, Dragging("budget", BEST, "budget", lambda: Panel(KNOBS, budget_picture)), 1)
