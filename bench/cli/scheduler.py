"""`mini-vllm bench scheduler`: the CPU time of scheduling."""

import json
import os
import platform
from dataclasses import asdict, replace

import typer
from rich.console import Console
from rich.text import Text

from bench import long_queue
from bench import scheduler as measured
from bench.long_queue import LongQueue, measure_long_queue
from bench.scheduler import Cost, SchedulerCosts, measure_scheduler
from course.palette import color
from course.terminal.console import friendly, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import AsJson, LineupText
from course.terminal.progress import reported
from course.terminal.step_view import FAINT, STRONG
from mini_vllm.assembly.lineup import Lineup

BAR_LENGTH = 28
OURS = color(1)


@friendly
def bench_scheduler(
    lineup: LineupText = None,
    as_json: AsJson = False,
) -> None:
    """Measure the CPU time of scheduling, per request.

    That of schedule() and update_from_output().
    """
    team = replace(lineup_to_run(lineup, make_console(stderr=as_json)), runner="absent")
    if as_json:
        typer.echo(json.dumps(as_record(*measure(team), str(team))))
        return
    console = make_console()
    console.print(whose_code(team), markup=False)
    show(console, *measure(team))


def measure(lineup: Lineup) -> tuple[SchedulerCosts, LongQueue | None]:
    """Run both measurements and show the progress."""
    with reported("Measuring") as report:
        costs = measure_scheduler(lineup, report)
        report(f"{long_queue.NUM_QUEUED:,} waiting requests (the last part)")
        return costs, measure_queue(lineup)


def measure_queue(lineup: Lineup) -> LongQueue | None:
    """Measure with a long queue. Without phase 2 return None: a million single slots would take too long."""
    return None if lineup.kv_cache == "absent" else measure_long_queue(lineup)


def show(console: Console, costs: SchedulerCosts, queue: LongQueue | None) -> None:
    """Print all measurements as bars."""
    console.print("\nCPU microseconds, the median round; in brackets the fastest.", style=FAINT)
    console.print("\nPer scheduled request: schedule() + update_from_output(), all decode", style=STRONG)
    scale = max(cost.median for cost in costs.decodes.values())
    for num_requests, cost in costs.decodes.items():
        times = cost.median / costs.bookkeeping[num_requests].median
        console.print(bar(f"{num_requests:>5} running", cost, scale, f"{times:3.0f} x bare"))
    admissions = costs.admissions
    scale = admissions.together.median
    heading = (
        f"Per admission: {measured.NUM_ADMISSIONS:,} in one step that share {measured.SHARED_TOKENS} cached tokens"
    )
    console.print(f"\n{heading}", style=STRONG)
    console.print(bar("at arrival", admissions.arrival, scale, "hashes the prompt"))
    console.print(bar("schedule()", admissions.schedule, scale, "lets it in"))
    console.print(bar("update", admissions.update, scale, "ends it again"))
    console.print(bar("together", admissions.together, scale, ""))
    if (pools := costs.pool_sizes) is not None:
        console.print("\nPer scheduled request, by the size of the pool: 64 running", style=STRONG)
        scale = max(pools.small.median, pools.large.median)
        console.print(bar(f"{measured.SMALL_POOL:>9,}", pools.small, scale, "blocks"))
        console.print(bar(f"{measured.LARGE_POOL:>9,}", pools.large, scale, f"blocks, ratio {pools.ratio:.2f}"))
    if queue is not None:
        console.print(
            f"\nPer scheduled request, by the queue: 64 running, {long_queue.NUM_BLOCKS:,} blocks", style=STRONG
        )
        scale = max(queue.empty.median, queue.long.median)
        console.print(bar("none wait", queue.empty, scale, ""))
        console.print(bar(f"{long_queue.NUM_QUEUED:,} wait", queue.long, scale, f"ratio {queue.ratio:.2f}"))
        console.print(bar("to join", queue.joining, scale, "each of them, once"))
    bare = next(iter(costs.bookkeeping.values()))
    console.print(
        f"\nbare: the minimum of any scheduler in Python, measured in this run: a loop with one dict insert, one "
        f"addition and one list append per request, {bare.median:.3f} us. Clock: time.{measured.CLOCK}, garbage "
        f"collector on after gc.freeze(). Python {platform.python_version()}.",
        style=FAINT,
    )


def bar(name: str, cost: Cost, scale: float, remark: str) -> Text:
    """Return a bar with its numbers."""
    length = max(1, round(BAR_LENGTH * cost.median / scale))
    figures = f" {cost.median:6.2f} ({cost.best:.2f})"
    return Text.assemble(f"{name:>14} ", ("█" * length, OURS), " " * (BAR_LENGTH - length), f"{figures:<17} {remark}")


def as_record(costs: SchedulerCosts, queue: LongQueue | None, lineup: str) -> dict[str, object]:
    """Return the measurements as a JSON object; all costs are CPU microseconds per request."""
    return {
        "lineup": lineup,
        "clock": f"time.{measured.CLOCK}",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "per_scheduled_request": {str(n): asdict(cost) for n, cost in costs.decodes.items()},
        "bare_bookkeeping": {str(n): asdict(cost) for n, cost in costs.bookkeeping.items()},
        "times_bare_bookkeeping": {
            str(n): costs.decodes[n].median / cost.median for n, cost in costs.bookkeeping.items()
        },
        "per_admission": asdict(costs.admissions),
        "pool_sizes": None
        if costs.pool_sizes is None
        else {
            str(measured.SMALL_POOL): asdict(costs.pool_sizes.small),
            str(measured.LARGE_POOL): asdict(costs.pool_sizes.large),
            "ratio": costs.pool_sizes.ratio,
        },
        "long_queue": None
        if queue is None
        else {
            "num_queued": long_queue.NUM_QUEUED,
            "num_blocks": long_queue.NUM_BLOCKS,
            **asdict(queue),
            "ratio": queue.ratio,
        },
    }
