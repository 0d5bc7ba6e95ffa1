"""`mini-vllm bench widget`: the delay from a slider to its picture."""

import json
from statistics import median
from typing import Annotated

import typer

from bench.cli.drag import show_drags
from bench.drag import NUM_MOVES, draggings, measure_drag
from bench.widget import NUM_STEPS, films, measure_widget
from course.browser.chromium import headless_chromium
from course.terminal.charts import measured_bar
from course.terminal.console import friendly, make_console
from course.terminal.progress import counted, reported
from course.terminal.step_view import FAINT, STRONG


@friendly
def bench_widget(
    steps: Annotated[int, typer.Option(min=1, help="Steps of the slider for each pool.")] = NUM_STEPS,
    moves: Annotated[int, typer.Option(min=1, help="Moves of the mouse for each panel.")] = NUM_MOVES,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as one JSON object.")] = False,
) -> None:
    """Measure the widgets in a headless Chromium: from a step of a slider, or a move of a knob, to the picture."""
    console = make_console(stderr=as_json)
    with reported("Starting Chromium") as report, headless_chromium() as browser:
        version = browser.version
        pools = counted(list(films()), "Measuring pools", report)
        results = [measure_widget(browser, num_blocks, film, steps) for num_blocks, film in pools]
        drags = [measure_drag(browser, each, moves) for each in counted(list(draggings()), "Dragging knobs", report)]
    if as_json:
        record = [{"num_blocks": r.num_blocks, "ms": r.steps, "frame_ms": r.nothing} for r in results]
        dragged = {drag.name: drag.times for drag in drags}
        typer.echo(json.dumps({"chromium": version, "pools": record, "panels": dragged}))
        return
    console.print(f"From a step of the slider to its picture: the median of {steps} steps", style=STRONG)
    scale = max(result.median for result in results)
    for result in results:
        figures = f"{result.median:5.1f} ms, the slowest {result.worst:.1f} ms"
        console.print(
            measured_bar(f"{result.num_blocks:,} blocks", result.median, scale, figures, ours=True), highlight=False
        )
    frame = median(value for result in results for value in result.nothing)
    console.print(measured_bar("nothing changes", frame, scale, f"{frame:5.1f} ms: a frame of the browser", ours=False))
    console.print(f"\nFrom a move of a dragged knob to its picture: the median of {moves} moves", style=STRONG)
    show_drags(console, drags)
    console.print(
        f"The time machine over labs/observed/all_phases.jsonl in Chromium {version}, headless. Panels: a page "
        f"and Python, without Jupyter; `mini-vllm bench dial` measures the dial.",
        style=FAINT,
        markup=False,
    )
