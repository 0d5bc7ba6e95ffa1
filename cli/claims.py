"""`mini-vllm claims`: what papers say of scheduling policies, beside what they do on this engine."""

import json
from dataclasses import replace
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from arena.claims import CLAIMS, Claim
from course.terminal.console import friendly, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import AsJson, LineupText
from course.terminal.progress import reported
from course.terminal.step_view import FAINT, STRONG
from mini_vllm import Lineup


@friendly
def claims(
    words: Annotated[list[str] | None, typer.Argument(help="Only claims whose name holds one of these words.")] = None,
    lineup: LineupText = None,
    as_json: AsJson = False,
) -> None:
    """Measure what papers claim of scheduling policies, on simulated requests.

    Each with three seeds; all of them take about a minute on two cores.
    """
    chosen = [claim for claim in CLAIMS if not words or any(word.lower() in claim.name.lower() for word in words)]
    if not chosen:
        raise ValueError(f"no claim holds {' or '.join(words or [])}; they are: {'; '.join(c.name for c in CLAIMS)}")
    console, found = make_console(stderr=as_json), []
    team = replace(lineup_to_run(lineup, console), runner="absent")
    console.print(whose_code(team), markup=False)
    with reported("Simulating") as report:
        for number, claim in enumerate(chosen):
            report(claim.name, number, len(chosen))
            found.append(_measured(claim, team))
    for claim, (ours, holds) in zip(chosen, found, strict=True):
        console.print(f"\n{claim.name} ({claim.source})", style=STRONG, markup=False)
        table = Table.grid(padding=(0, 2, 0, 2))
        table.add_row("said", escape(claim.said))
        table.add_row("here", escape(f"{ours}: not shown" if holds is False else ours))
        table.add_row("differs", escape(claim.differs), style=FAINT)
        console.print(table)
    if as_json:
        typer.echo(json.dumps([_record(claim, *each) for claim, each in zip(chosen, found, strict=True)]))


def _measured(claim: Claim, lineup: Lineup) -> tuple[str, bool | None]:
    """Return what a claim has found; None for whether it holds if it needs code that is not written."""
    try:
        return claim.measure(lineup)
    except NotImplementedError as error:
        return f"not measured: {error} is not written yet", None


def _record(claim: Claim, ours: str, holds: bool | None) -> dict[str, object]:
    return {"name": claim.name, "source": claim.source, "said": claim.said, "ours": ours, "holds": holds}
