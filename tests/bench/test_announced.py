"""Every benchmark says before it starts how long it takes, shows results as they come, and how far rounds are apart."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from bench.cli import announced
from bench.cli.main import COMMANDS
from bench.engine_rounds import fastest_rounds
from bench.features import measure_feature
from course.terminal.charts import rates, spread
from mini_vllm.assembly.lineup import parse_lineup
from tests.cli.conftest import Commands


@dataclass
class Took:
    seconds: float
    all_seconds: list[float] = field(default_factory=list)


@pytest.mark.parametrize("name", [name for name, *_ in COMMANDS if name != "gpu"])
def test_the_time_is_told_before_anything_starts(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def starting(*given: object) -> None:
        raise ValueError("this is the start")

    monkeypatch.setattr(announced, "reported", starting)
    shown = " ".join(mini_vllm("bench", name, exit_code=2).stderr.split())
    before, _, _ = shown.partition("this is the start")
    assert "on two quiet cores" in before, shown


@pytest.mark.parametrize(
    ("seconds", "amount"), [(3, "10 seconds"), (44, "40 seconds"), (89, "90 seconds"), (91, "2 minutes"), (580, "10 m")]
)
def test_the_time_is_told_in_round_numbers(capsys: pytest.CaptureFixture[str], seconds: float, amount: str) -> None:
    with announced.measuring("Measuring", seconds) as report:
        report("part 1", found="part 1: 7 tokens/s")
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first.startswith(f"About {amount}")
    assert second == "part 1: 7 tokens/s"


def test_the_fastest_round_has_the_seconds_of_all_but_the_warm_up() -> None:
    def took(*seconds: float) -> Iterator[Took]:
        yield from map(Took, seconds)

    runs = {"a": took(9.0, 3.0, 2.0, 4.0), "b": took(1.0, 5.0, 6.0, 5.5)}
    best = fastest_rounds({name: one.__next__ for name, one in runs.items()}, 3, warm_up=True)
    assert (best["a"].seconds, best["a"].all_seconds) == (2.0, [3.0, 2.0, 4.0])
    assert (best["b"].seconds, best["b"].all_seconds) == (5.0, [5.0, 6.0, 5.5])


def test_a_spread_goes_from_the_fastest_to_the_slowest() -> None:
    assert spread([0.5, 0.25, 1.5]) == "250ms to 1.50s"
    assert rates(1200.0, [0.5, 0.25, 1.0]) == "300 to 1,200 tokens/s"
    assert (spread([2.0]), rates(7.0, [2.0])) == ("2.00s", "7 tokens/s")


def test_each_round_of_a_feature_is_shown_when_it_is_there() -> None:
    lines: list[str] = []

    def report(text: str, done: int = 0, total: int = 0, found: str = "") -> None:
        lines.extend([found] if found else [])

    compared = measure_feature("prefix", parse_lineup("solution"), 0.05, 2, report=report)
    assert [line.partition(":")[0] for line in lines] == [
        f"{side}, round {number} of 2" for number in (1, 2) for side in ("with it", "without")
    ]
    assert len(compared.with_it.all_seconds) == len(compared.without.all_seconds) == 2
