"""`mini-vllm bench dial`: the response time of the chunking dial."""

import json
from typing import Annotated

import typer

from bench.cli.drag import show_drags
from bench.dial import NUM_REQUESTS, WORKLOADS, measure_dial
from bench.drag import NUM_MOVES
from course.browser.chromium import headless_chromium
from course.terminal.console import friendly, make_console
from course.terminal.progress import reported
from course.terminal.step_view import FAINT, STRONG


@friendly
def bench_dial(
    requests: Annotated[int, typer.Option(min=1, help="Simulated requests per change.")] = NUM_REQUESTS,
    moves: Annotated[int, typer.Option(min=1, help="Moves of the mouse for each workload.")] = NUM_MOVES,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as one JSON object.")] = False,
) -> None:
    """Measure the chunking dial of notebook 07 in a headless Chromium: from a dragged budget to the painted result."""
    with reported("Starting Chromium") as report, headless_chromium() as browser:
        results = []
        for result in measure_dial(browser, requests, moves):
            results.append(result)
            report("Measuring workloads", len(results), len(WORKLOADS))
    if as_json:
        typer.echo(json.dumps({result.name: result.times for result in results}))
        return
    console = make_console()
    console.print(f"From a move of the chunking dial to its picture for {requests:,} requests", style=STRONG)
    show_drags(console, results)
    console.print(f"{moves} budgets each, dragged with the mouse; a page and Python, without Jupyter.", style=FAINT)
