"""Bars for dragged knobs."""

from collections.abc import Sequence

from rich.console import Console

from bench.drag import Dragged
from course.terminal.charts import measured_bar


def show_drags(console: Console, results: Sequence[Dragged]) -> None:
    """Print the median of each drag `of` what it should be at most."""
    scale = max(result.median for result in results)
    for result in results:
        figures = f"{result.median:5.0f} ms of {result.target:.0f}, slowest {result.worst:.0f}"
        console.print(measured_bar(result.name, result.median, scale, figures, ours=True), highlight=False)
