"""Shows the first difference in a trace, or between two engines, as tables."""

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.pictures.terminal.step_table import step_table

if TYPE_CHECKING:
    from mini_vllm_labs.runs.oracle.divergence import Divergence
    from mini_vllm_labs.runs.parity.verdict import ParityVerdict

MAX_CHARACTERS = 300
ABSENT = "(nothing)"


def show_failure(console: Console, verdict: "ParityVerdict") -> None:
    """Print the failed trace and the first differing step, with both versions side by side."""
    console.print()
    console.print(f"{verdict.scenario.name}: {verdict.headline}", markup=False, soft_wrap=True, style="bold")
    if (shows := verdict.scenario.line.get("shows")) is not None:
        console.print(Padding(Text(f"the scenario shows: {shows}"), (0, 0, 0, 2)))
    difference = verdict.difference
    if difference is None:
        return
    parts = differing_parts(difference.field, difference.recorded, difference.ours)
    console.print(table_of_parts(parts, "", "recorded", "ours"))


def table_of_parts(parts: list[tuple[str, str, str]], *headings: str) -> Table:
    """Return a table of the differing parts of a field, one per row."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for part in parts:
        table.add_row(*part)
    return table


def differing_parts(field: str, recorded: Any, ours: Any) -> list[tuple[str, str, str]]:
    """Return (place, recorded, ours) for each entry of a field that differs."""
    if field == "scheduled":
        pairs = enumerate(zip_longest(recorded, ours), start=1)
        return [(f"entry {number}", *entries(one, other)) for number, (one, other) in pairs if one != other]
    if isinstance(recorded, dict) and isinstance(ours, dict):
        keys = [key for key in recorded | ours if recorded.get(key, ABSENT) != ours.get(key, ABSENT)]
        return [(str(key), short(recorded.get(key, ABSENT)), short(ours.get(key, ABSENT))) for key in keys]
    return [(field, short(recorded), short(ours))]


def entries(recorded: dict[str, Any] | None, ours: dict[str, Any] | None) -> tuple[str, str]:
    """Format two entries of `scheduled` with their id and the fields that differ."""
    if recorded is None or ours is None:
        return tuple(ABSENT if side is None else fields(side, list(side)) for side in (recorded, ours))  # type: ignore[return-value]
    names = [name for name in recorded | ours if name == "id" or recorded.get(name) != ours.get(name)]
    return fields(recorded, names), fields(ours, names)


def fields(entry: dict[str, Any], names: list[str]) -> str:
    return "\n".join(f"{name} {short(entry.get(name, ABSENT))}" for name in names)


def short(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) and value and isinstance(value[0], int) else str(value)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} ... ({len(text)} characters)"


def last_steps(title: str, records: list[StepRecord]) -> Table:
    """Return the step table for the last two steps: the last equal step and the first differing step."""
    table = step_table(records, None, range(max(0, len(records) - 2), len(records)))
    table.title, table.title_justify, table.caption = title, "left", None
    return table


def side_by_side(divergence: "Divergence") -> Table:
    """Return a table of the differing entries in the first differing field."""
    field, reference, mine = divergence.field, divergence.reference[-1], divergence.mine[-1]
    parts = differing_parts(field, reference[field], mine[field])  # type: ignore[literal-required]
    return table_of_parts(parts, field, "reference", "yours")
