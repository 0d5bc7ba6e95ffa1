"""A table that compares runs of one workload."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from course.notebook.jobs import WorkloadRun
from course.notebook.notice import Notice
from course.notebook.recorded_mark import first_mark, marked_html, marked_text

HEADINGS = ("run", "steps", "most at once", "largest step", "computed", "again", "from the cache", "preempted")
LEGEND = (
    "Largest step, computed and from the cache in tokens. Again: tokens that had been computed before. "
    "A run that stalled did not finish."
)


@dataclass(frozen=True)
class Figures:
    """A table with one row per run; `recorded` as in `WorkloadRun`."""

    rows: Sequence[Sequence[str]]
    recorded: str = ""

    def __repr__(self) -> str:
        table = [HEADINGS, *self.rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        return marked_text("\n".join([*lines, LEGEND]), self.recorded)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        head = "".join(f'<th scope="col">{heading}</th>' for heading in HEADINGS)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        page = marked_html(f"{table}<p><small>{LEGEND}</small></p>", self.recorded)
        return {"text/html": page, "text/plain": repr(self)}


def figures(runs: Mapping[str, WorkloadRun | Notice]) -> Figures | Notice:
    """Return the figures of some runs by their names, or the first of them that is a `Notice`."""
    rows = []
    for name, run in runs.items():
        if isinstance(run, Notice):
            return run
        rows.append(row_of(name, run))
    return Figures(rows, first_mark(runs.values()))


def row_of(name: str, run: WorkloadRun) -> list[str]:
    """Return a run's row of the table."""
    steps = run.recording.steps
    state = run.recording.state(len(steps) - 1)
    return [
        name,
        f"{len(steps)}, stalled" if run.stalled else str(len(steps)),
        str(max(len(record["scheduled"]) for record in steps)),
        str(max(record["total"] for record in steps)),
        str(state.num_computed_tokens),
        str(state.num_recomputed_tokens),
        str(state.num_hit_tokens),
        str(state.num_preemptions),
    ]
