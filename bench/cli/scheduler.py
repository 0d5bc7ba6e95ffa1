"""`mini-vllm bench scheduler`: the CPU time of scheduling."""

import json
import os
import platform
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from bench import scheduler as measured
from bench.cli.announced import measuring
from bench.cli.beside_vllm import bench_beside_vllm
from bench.scheduler import measure_scheduler
from bench.scheduler_costs import Cost, SchedulerCosts
from course.palette import color
from course.terminal.console import friendly, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import AsJson, LineupText
from course.terminal.step_view import FAINT, STRONG

BAR_LENGTH = 20
OURS = color(1)


@friendly
def bench_scheduler(
    lineup: LineupText = None,
    peer: Annotated[
        Literal["vllm"] | None, typer.Option(help="Beside vLLM's own scheduler, in one process.", show_default=False)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="With --peer: two rounds, fewer admissions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the CPU time of scheduling, per request.

    That of schedule() and update_from_output().
    """
    console = make_console(stderr=as_json)
    team = replace(lineup_to_run(lineup, console), runner="absent")
    if not as_json:
        console.print(whose_code(team), markup=False)
    if peer is not None:
        bench_beside_vllm(console, team, quick=quick, as_json=as_json)
        return
    with measuring("Measuring", 30) as report:
        costs = measure_scheduler(team, report)
    if as_json:
        typer.echo(json.dumps(as_record(costs, str(team))))
    else:
        show(console, costs)


def show(console: Console, costs: SchedulerCosts) -> None:
    """Print all measurements as bars."""
    console.print("\nCPU microseconds, the median round; in brackets the fastest and the slowest.", style=FAINT)
    decodes = {
        f"{count:>5} running": (cost, f"{cost.median / costs.bookkeeping[count].median:3.0f} x bare")
        for count, cost in costs.decodes.items()
    }
    show_bars(console, "Per scheduled request: schedule() + update_from_output(), all decode", decodes)
    parts = costs.admissions
    show_bars(
        console,
        f"Per admission: {measured.NUM_ADMISSIONS:,} in one step that share {measured.SHARED_TOKENS} cached tokens",
        {
            "at arrival": (parts.arrival, "hashes the prompt"),
            "schedule()": (parts.schedule, "lets it in"),
            "update": (parts.update, "ends it again"),
            "together": (parts.together, ""),
        },
    )
    if (pools := costs.pools) is not None:
        small, large = f"{measured.SMALL_POOL:>9,}", f"{measured.LARGE_POOL:>9,}"
        bars = {small: (pools.small, "blocks"), large: (pools.large, f"blocks, ratio {pools.ratio:.2f}")}
        show_bars(console, "Per scheduled request, by the size of the pool: 64 running", bars)
    if (queues := costs.queues) is not None and costs.joining is not None:
        bars = {
            "none wait": (queues.small, ""),
            f"{measured.NUM_QUEUED:,} wait": (queues.large, f"ratio {queues.ratio:.2f}"),
            "to join": (costs.joining, "each of them, once"),
        }
        heading = f"Per scheduled request, by the queue: 64 running, {measured.LARGE_POOL:,} blocks"
        show_bars(console, heading, bars)
    bare = next(iter(costs.bookkeeping.values()))
    console.print(
        f"\nbare: the minimum of any scheduler in Python, measured in this run: a loop with one dict insert, one "
        f"addition and one list append per request, {bare.median:.3f} us. Clock: time.{measured.CLOCK}, garbage "
        f"collector on after gc.freeze(). Python {platform.python_version()}.",
        style=FAINT,
    )


def show_bars(console: Console, heading: str, costs: dict[str, tuple[Cost, str]]) -> None:
    """Print costs, each with its remark, as bars of one scale: the largest fills its column."""
    console.print(f"\n{heading}", style=STRONG)
    scale = max(cost.median for cost, _ in costs.values())
    for name, (cost, remark) in costs.items():
        console.print(bar(name, cost, scale, remark))


def bar(name: str, cost: Cost, scale: float, remark: str) -> Text:
    """Return a bar with its numbers."""
    length = max(1, round(BAR_LENGTH * cost.median / scale))
    figures = f" {cost.median:6.2f} ({cost.best:.2f} to {cost.worst:.2f})"
    return Text.assemble(f"{name:>14} ", ("█" * length, OURS), " " * (BAR_LENGTH - length), f"{figures:<25} {remark}")


def as_record(costs: SchedulerCosts, lineup: str) -> dict[str, Any]:
    """Return the measurements as a JSON object; all costs are CPU microseconds per request."""
    record: dict[str, Any] = {
        "lineup": lineup,
        "clock": f"time.{measured.CLOCK}",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "per_scheduled_request": {str(n): asdict(cost) for n, cost in costs.decodes.items()},
        "bare_bookkeeping": {str(n): asdict(cost) for n, cost in costs.bookkeeping.items()},
        "times_bare_bookkeeping": {str(n): costs.decodes[n].median / c.median for n, c in costs.bookkeeping.items()},
        "per_admission": asdict(costs.admissions),
        "pool_sizes": None,
        "long_queue": None,
    }
    if (pools := costs.pools) is not None:
        sizes = {measured.SMALL_POOL: asdict(pools.small), measured.LARGE_POOL: asdict(pools.large)}
        record["pool_sizes"] = {**{str(size): cost for size, cost in sizes.items()}, "ratio": pools.ratio}
    if (queues := costs.queues) is not None and costs.joining is not None:
        record["long_queue"] = {
            "num_queued": measured.NUM_QUEUED,
            "num_blocks": measured.LARGE_POOL,
            "empty": asdict(queues.small),
            "long": asdict(queues.large),
            "joining": asdict(costs.joining),
            "ratio": queues.ratio,
        }
    return record
