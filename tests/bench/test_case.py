"""The cases alternate; medians, ranges, ratios and counts of equal tokens use only the rounds that count."""

from functools import partial
from typing import Any

import pytest
from rich.console import Console

from mini_vllm_labs.bench.case import Case, Measured, Quantity, in_turns
from mini_vllm_labs.cli.bench.measured import show_case

ROUNDS = {"old": [2.0, 4.0, 8.0], "new": [3.0, 2.0, 2.0]}


def case_of(tokens: Any = None, **more: Any) -> Case:
    rounds = {name: [Measured(one, answers=tokens and tokens[name]) for one in ROUNDS[name]] for name in ROUNDS}
    return Case.of("t", "us", "old", rounds, **more)


def test_sides_take_turns_and_warm_ups_do_not_count() -> None:
    asked: list[tuple[str, int]] = []

    def run(name: str, number: int) -> Measured:
        asked.append((name, number))
        return Measured(number, {"n": Quantity(10.0 * number, "s")})

    rounds = in_turns({name: partial(run, name) for name in "ab"}, 2, num_warm_ups=1)
    assert asked == [("a", -1), ("b", -1), ("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    case = Case.of("t", "", "a", rounds)
    assert case.sides["b"].values == [0, 1]
    assert case.sides["b"].figures == {"n": (5.0, "s")}


def test_a_ratio_is_the_median_of_those_of_each_round() -> None:
    case = case_of()
    assert case.ratios("new") == [1.5, 0.5, 0.25]
    assert (case.ratio("new"), case_of(base_over_side=True).ratio("new")) == (0.5, 2.0)
    assert (case.spread("old"), case.spread("new"), case.heading) == (
        "4.00 (2.00 to 8.00)",
        "2.00 (2.00 to 3.00)",
        "t, in us",
    )


@pytest.mark.parametrize(
    ("tokens", "equal"),
    [([[1, 2], [3]], (6, 6)), ([[1, 2], [4]], (3, 6)), ([[1, 2]], (3, 3))],
    ids=["all", "half", "fewer served"],
)
def test_tokens_are_compared_with_those_of_the_base_and_a_difference_is_shown(
    capsys: pytest.CaptureFixture[str], tokens: list[list[int]], equal: tuple[int, int]
) -> None:
    case = case_of(tokens={"old": [[1, 2], [3]], "new": tokens})
    assert case.sides["new"].equal == equal
    show_case(Console(width=80), case)
    shown = capsys.readouterr().out
    assert ("The answers differ, which is a bug." in shown) == (not case.same_answers)
    assert f"new: {equal[0]} of {equal[1]} requests as in old" in shown
    assert "new ██████████           2.00 (2.00 to 3.00)  x0.50\n" in shown


def test_a_quantity_is_written_with_its_unit() -> None:
    quantities = [(0.0123, "s"), (0.0789, "share"), (1234.5, "tokens/s"), (1234.5, ""), (16, ""), (2.345, "us")]
    texts = ["12.3ms", "7.9%", "1,234 tokens/s", "1,234.5", "16", "2.35 us"]
    assert [str(Quantity(*one)) for one in quantities] == texts
