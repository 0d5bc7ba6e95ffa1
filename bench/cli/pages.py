"""`mini-vllm bench pages`: the delay from a move to its picture in widgets and the live page, and the pages' bytes."""

import json
import math
import os
from dataclasses import asdict
from typing import Annotated

import typer

from bench.cli.announced import measuring
from course.browser.chromium import headless_chromium
from course.terminal.console import friendly, make_console
from course.terminal.options import AsJson
from course.terminal.step_view import FAINT


@friendly
def bench_pages(
    moves: Annotated[int, typer.Option(min=1, help="Moves of each slider and knob.")] = 15,
    requests: Annotated[int, typer.Option(min=1, help="Simulated requests per change of the dial.")] = 2_000,
    as_json: AsJson = False,
) -> None:
    """Measure the delay from a slider or a knob to its picture.

    A headless Chromium draws them. Final pictures are those that follow once a knob rests. Bytes: code, style and state
    of a widget, and what a browser loads of the live page.
    """
    from bench.pages import FINAL_MS, measure_pages

    pages = []
    with headless_chromium() as browser, measuring("Opening pages", 90) as report:
        for delays in measure_pages(browser, moves, requests):
            pages.append(delays)
            report("Opening pages", found=str(delays))
        version = browser.version
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    if as_json:
        facts = {"chromium": version, "load": load, "moves": moves, "final_target": FINAL_MS}
        typer.echo(json.dumps({**facts, "pages": [asdict(one) for one in pages]}))
        return
    console = make_console()
    for one in pages:
        console.print(str(one), markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"Milliseconds, {moves} moves each, without Jupyter. Chromium {version}; load in the last minute: {load:.1f}.",
        style=FAINT,
    )
