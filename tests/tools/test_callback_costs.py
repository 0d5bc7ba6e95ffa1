"""The CPU time of a panel's answers: every knob is turned to its ends and choices, and back. Times are not tested."""

from typing import Any

from course.views.knobs import Menu, Slide, Switch
from course.views.panels import Panel
from course.views.picture import Picture
from tests.views.test_base import budget_picture
from tools.callback_costs import costs, report


def test_every_knob_is_turned_once_moving_and_once_at_rest() -> None:
    asked: list[tuple[Any, ...]] = []

    def draw(budget: float, policy: str, on: bool) -> Picture:
        asked.append((budget, policy, on))
        return budget_picture(budget + 1, policy, on)

    knobs = (
        Slide("budget", "budget", 8, 8, 128, 8),
        Menu("policy", "policy", "a", ("a", "b")),
        Switch("on", "on", True),
    )
    panel = Panel(knobs, draw)
    found = list(costs(panel))
    assert [name for name, *_ in found] == ["budget", "policy", "on"]
    assert min(time for _, *times in found for time in times) > 0
    first, middle, high = (8, "a", True), (72, "a", True), (128, "a", True)
    budget = [first, middle, middle, high, high, first]
    policy = [(8, "b", True)] * 2 + [first]
    switch = [(8, "a", False)] * 2 + [first]
    assert asked == [*budget, *policy, *switch]


def test_both_panels_are_measured() -> None:
    lines = list(report())
    assert sum(line.startswith("engine panel (00)") for line in lines) == 7
    assert sum(line.startswith("policy bench (09)") for line in lines) == 6
