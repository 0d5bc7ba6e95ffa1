"""`mini-vllm bench async`: what is hidden behind the forward pass by planning one step ahead."""

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from course.terminal.charts import measured_bar
from course.terminal.console import friendly, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import AsJson, LineupText, Threads, threads_to_use
from course.terminal.progress import reported
from course.terminal.step_view import FAINT, STRONG

if TYPE_CHECKING:
    from bench.overlap import OverlapCase

WHY = (
    "In turn, the runner waits while the engine applies a step, writes its text and plans the next one. Overlapped, "
    "that happens during the forward pass; between two passes only the runner's own work is left: sampling, and the "
    "tensors of the next step. The time is hidden only if the pass does not need it: Python runs one thread at a time, "
    "and two threads may share a core. So a model on a CPU gains little or loses. A pass on a GPU needs neither; there "
    "it has not been measured."
)


@friendly
def bench_async(
    lineup: LineupText = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, in turns; the fastest counts.")] = 3,
    threads: Threads = None,
    quick: Annotated[bool, typer.Option("--quick", help="The embedded model, batch 1 and 4, one round.")] = False,
    as_json: AsJson = False,
) -> None:
    """Generate with a step in flight and without.

    Measures the gap between forward passes, and tokens per second.
    """
    import torch

    from bench.overlap import BATCH_SIZES, EMBEDDED, LARGER, measure_overlap

    console = make_console(stderr=as_json)
    team = lineup_to_run(lineup, console, reference="solution:1-6,solution:8")
    if "absent" in (team.runner, team.async_scheduling):
        raise ValueError(f"lineup {team}: a step of the real model in flight needs phases 6 and 8")
    with reported("Loading torch and the model") as report:
        torch.set_num_threads(threads_to_use(threads))
        sizes, models = list(BATCH_SIZES), [EMBEDDED, LARGER]
        if quick:
            sizes, models, rounds = sizes[:2], models[:1], 1
        cases = list(measure_overlap(team, sizes, models, rounds, report))
    if as_json:
        typer.echo(json.dumps({"lineup": str(team), "cases": [case.record() for case in cases]}))
        return
    console.print(whose_code(team), markup=False)
    for case in cases:
        show(console, case)
    console.print(f"\n{WHY}", style=FAINT, markup=False)


def show(console: Console, case: "OverlapCase") -> None:
    """Print a bar for each way: tokens per second, and what lies between two forward passes."""
    from bench.overlap import OVERLAPPED

    console.print(f"\n{case.model}, batch {case.batch_size}", style=STRONG, markup=False)
    fastest = max(timed.tokens_per_second for timed in case.timed.values())
    for way, timed in case.timed.items():
        figures = (
            f"{timed.tokens_per_second:,.0f} tokens/s, {timed.gap_ms:.2f} ms between two passes, "
            f"{timed.share_between:.0%} of the time"
        )
        console.print(measured_bar(way, timed.tokens_per_second, fastest, figures, ours=way == OVERLAPPED))
    console.print(f"x{case.speedup:.2f} with a step in flight", style=FAINT)
    if not case.same_tokens:
        console.print("The tokens differ: that must not be.", style="bold red")
