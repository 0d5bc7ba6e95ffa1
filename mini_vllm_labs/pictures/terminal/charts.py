"""Formats tables of facts, durations and rates."""

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from mini_vllm_labs.runs.palette import color

BAR_LENGTH = 20
OURS, THEIRS = color(1), color(6)


def measured_bar(name: str, value: float, scale: float, figures: str, *, ours: bool) -> Text:
    length = min(BAR_LENGTH, max(1, round(BAR_LENGTH * value / scale)))
    return Text.assemble(
        f"{name:>23} ", ("█" * length, OURS if ours else THEIRS), " " * (BAR_LENGTH - length), f" {figures}"
    )


def facts_table(facts: Mapping[str, str]) -> Table:
    """Return a table with one row per fact, with the name in bold."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    for fact in facts.items():
        table.add_row(*fact)
    return table


def duration(seconds: float) -> str:
    """Format seconds as four or five characters, including a unit."""
    if seconds < 0.1:
        return f"{1e3 * seconds:.1f}ms"
    return f"{1e3 * seconds:.0f}ms" if seconds < 1 else f"{seconds:.2f}s"


def spread(seconds: Sequence[float]) -> str:
    """Return the range of a measurement's rounds, such as `1.20s to 1.31s`."""
    return " to ".join(dict.fromkeys(map(duration, (min(seconds), max(seconds)))))


def rates(tokens_per_second: float, seconds: Sequence[float]) -> str:
    """Return the range of rates, such as `360 to 400 tokens/s`, computed from the fastest round's rate."""
    slowest = tokens_per_second * min(seconds) / max(seconds)
    return " to ".join(dict.fromkeys(f"{rate:,.0f}" for rate in (slowest, tokens_per_second))) + " tokens/s"


def shares(seconds: Mapping[str, float]) -> str:
    """Return each part's percentage, largest first, as in `60% this, 40% that`."""
    total = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda part: -part[1])
    return ", ".join(f"{spent / total:.0%} {name}" for name, spent in ordered)
