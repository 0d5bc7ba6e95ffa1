"""`mini-vllm bench dial`: the response time of the chunking dial."""

import json
from typing import Annotated

import typer

from bench.dial import NUM_REQUESTS, WORKLOADS, measure_dial
from course.terminal.charts import measured_bar
from course.terminal.console import friendly, make_console
from course.terminal.progress import reported
from course.terminal.step_view import FAINT, STRONG


@friendly
def bench_dial(
    requests: Annotated[int, typer.Option(min=1, help="Simulated requests per change.")] = NUM_REQUESTS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as one JSON object.")] = False,
) -> None:
    """Measure the chunking dial of notebook 07: from a changed setting to its result."""
    with reported("Measuring workloads") as report:
        results = []
        for result in measure_dial(requests):
            results.append(result)
            report("Measuring workloads", len(results), len(WORKLOADS))
    if as_json:
        typer.echo(json.dumps({result.workload: result.times for result in results}))
        return
    console = make_console()
    console.print(f"From a change of the chunking dial to its result for {requests:,} requests", style=STRONG)
    scale = max(result.median for result in results)
    for result in results:
        figures = f"{result.median:5.0f} ms, the slowest {result.worst:.0f} ms"
        console.print(measured_bar(result.workload, result.median, scale, figures, ours=True), highlight=False)
    console.print(f"{len(results[0].times)} budgets and thresholds each; Python only, no browser.", style=FAINT)
