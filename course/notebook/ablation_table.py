"""What each phase improves, as a table in a cell."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from course.notebook.recorded_mark import marked_html, marked_text
from course.terminal.stage_sentences import describe, mean_ms, p95_ms
from course.workloads.ablation import LineupResult

HEADINGS = ("phases", "steps", "most at once", "memory held", "stalled", "preempted", "computed", "again", "hits")
TIMES = ("TTFT mean", "TTFT p95", "ITL mean", "ITL p95")
LEGEND = (
    "TTFT: time to first token, ITL: from one token to the next, in ms of simulated time. "
    "Again: tokens that had been computed before."
)


@dataclass(frozen=True)
class AblationTable:
    """Stages of one workload, each with one phase more than the one before it; `recorded` as in `WorkloadRun`."""

    stages: Sequence[LineupResult]
    recorded: str = ""

    def sentences(self) -> list[str]:
        """Return one sentence per stage."""
        before = [None, *self.stages[:-1]]
        return [describe(stage, last, self.stages[0]) for stage, last in zip(self.stages, before, strict=True)]

    def rows(self) -> list[list[str]]:
        """Return the cells of the table."""
        return [cells(stage) for stage in self.stages]

    def __repr__(self) -> str:
        table = [[*HEADINGS, *TIMES], *self.rows()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        return marked_text("\n".join([*lines, LEGEND, "", *self.sentences()]), self.recorded)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        head = "".join(f'<th scope="col">{heading}</th>' for heading in (*HEADINGS, *TIMES))
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows())
        sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences()[-1:])
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        page = f"{table}<p><small>{LEGEND}</small></p>{sentences}"
        return {"text/html": marked_html(page, self.recorded), "text/plain": repr(self)}


def cells(stage: LineupResult) -> list[str]:
    """Return a stage's row. A stage that stalled has no times: it did not serve every request."""
    first, between = stage.first_token_latencies, stage.inter_token_latencies
    times = [f"{mean_ms(first):.0f}", f"{p95_ms(first):.0f}", f"{mean_ms(between):.1f}", f"{p95_ms(between):.1f}"]
    return [
        f"1-{stage.last_phase}" if stage.last_phase > 1 else "1",
        str(stage.num_steps),
        str(stage.most_running),
        f"{stage.peak_held:.0%}",
        str(stage.num_stalled),
        str(stage.num_preemptions),
        f"{stage.num_computed_tokens:,}",
        f"{stage.num_recomputed_tokens:,}",
        f"{stage.hit_rate:.0%}",
        *(["-"] * len(times) if stage.num_stalled else times),
    ]
