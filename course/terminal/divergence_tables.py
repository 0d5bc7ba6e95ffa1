"""The step in which two lineups diverge, as tables."""

from rich import box
from rich.table import Table

from course.oracle.divergence import Divergence
from course.terminal.differences import differing_parts
from course.terminal.step_table import step_table
from mini_vllm.core.step_record import StepRecord


def last_steps(title: str, records: list[StepRecord]) -> Table:
    """Return the step table of the last two steps: the last equal one and the first different one."""
    table = step_table(records, None, range(max(0, len(records) - 2), len(records)))
    table.title, table.title_justify, table.caption = title, "left", None
    return table


def side_by_side(divergence: Divergence) -> Table:
    """Return the differing entries of the first field that differs."""
    field = divergence.field
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in (field, "reference", "yours"):
        table.add_column(heading, overflow="fold")
    reference, mine = divergence.reference[-1], divergence.mine[-1]
    for row in differing_parts(field, reference[field], mine[field]):  # type: ignore[literal-required]
        table.add_row(*row)
    return table
