"""`mini-vllm bench dial`: how soon the chunking dial answers."""

import json
from typing import Annotated

import typer

from bench.dial import NUM_REQUESTS, measure_dial
from course.terminal.charts import measured_bar
from course.terminal.console import friendly, make_console
from course.terminal.step_view import FAINT, STRONG


@friendly
def bench_dial(
    requests: Annotated[int, typer.Option(min=1, help="Requests that each answer is about.")] = NUM_REQUESTS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as one JSON object.")] = False,
) -> None:
    """Measure the chunking dial of notebook 07: from letting go of a knob to the answer."""
    results = list(measure_dial(requests))
    if as_json:
        typer.echo(json.dumps({result.workload: result.times for result in results}))
        return
    console = make_console()
    console.print(f"From a knob of the chunking dial to its answer about {requests:,} requests", style=STRONG)
    scale = max(result.median for result in results)
    for result in results:
        figures = f"{result.median:5.0f} ms, the slowest {result.worst:.0f} ms"
        console.print(measured_bar(result.workload, result.median, scale, figures, ours=True), highlight=False)
    console.print(f"{len(results[0].times)} budgets and thresholds each; Python only, no browser.", style=FAINT)
