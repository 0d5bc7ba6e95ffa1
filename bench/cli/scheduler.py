"""`mini-vllm bench scheduler`: the CPU time of scheduling; with `--peer vllm` beside vLLM's own, in one process."""

import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from statistics import median
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from bench import peer_process
from bench.cli.announced import measuring
from bench.scheduler import CLOCK, NUM_ADMISSIONS, NUM_ROUNDS, SHARED_TOKENS, measure_scheduler
from bench.scheduler_costs import Cost, Costs
from course.palette import color
from course.terminal.charts import measured_bar
from course.terminal.console import fail, friendly, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import AsJson, LineupText
from course.terminal.step_view import FAINT, STRONG
from mini_vllm.assembly.lineup import CHECKOUT, Lineup

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


def show(console: Console, tables: Mapping[str, Costs]) -> None:
    """Print all measurements as bars; those of one heading have one scale, and are divided by the first."""
    console.print("\nCPU microseconds, the median round; in brackets the fastest and the slowest.", style=FAINT)
    for heading, costs in tables.items():
        console.print(f"\n{heading}", style=STRONG, markup=False)
        first, scale = next(iter(costs.values())).median, max(cost.median for cost in costs.values())
        for name, cost in costs.items():
            console.print(bar(name, cost, scale, f"x{cost.median / first:.2f}"))
    console.print(
        f"\nClock: time.{CLOCK}, garbage collector on after gc.freeze(). Python {platform.python_version()}.",
        style=FAINT,
    )


def bar(name: str, cost: Cost, scale: float, remark: str) -> Text:
    """Return a bar with its numbers."""
    length = max(1, round(BAR_LENGTH * cost.median / scale))
    figures = f" {cost.median:6.2f} ({cost.best:.2f} to {cost.worst:.2f})"
    return Text.assemble(f"{name:>14} ", ("█" * length, OURS), " " * (BAR_LENGTH - length), f"{figures:<25} {remark}")


def as_record(tables: Mapping[str, Costs], lineup: str) -> dict[str, Any]:
    """Return the measurements as a JSON object; all costs are CPU microseconds."""
    costs = {heading: {side: asdict(cost) for side, cost in sides.items()} for heading, sides in tables.items()}
    facts = {"lineup": lineup, "clock": f"time.{CLOCK}", "python": platform.python_version(), "cpus": os.cpu_count()}
    return {**facts, "costs": costs}


def bench_beside_vllm(console: Console, lineup: Lineup, *, quick: bool, as_json: bool) -> None:
    """Measure both schedulers in one process, and show each result when it is there.

    Raises `ValueError` if vLLM's scheduler is not installed here, or the lineup cannot be compared with it.
    """
    if (reason := peer_process.why_missing(peer_process.VLLM)) is not None:
        raise ValueError(reason)
    if lineup.kv_cache == "absent":
        raise ValueError(f"lineup {lineup}: --peer vllm needs phase 2, as vLLM's memory comes in blocks, too")
    num_rounds, num_admissions = (2, 100) if quick else (NUM_ROUNDS, NUM_ADMISSIONS)
    cases = []
    with measuring("Importing vLLM", 10 if quick else 30) as report:
        for case in cases_beside_vllm(lineup, num_rounds, num_admissions):
            cases.append(case)
            report("Measuring", found=f"{case['name']}: {case['ratio']:.2f} of vLLM's")
    if as_json:
        facts = {"lineup": str(lineup), "clock": f"time.{CLOCK}", "python": platform.python_version()}
        typer.echo(json.dumps({**facts, "num_admissions": num_admissions, "compared": cases}))
        return
    for case in cases:
        show_beside(console, case)
    console.print(
        f"\nCPU microseconds per request, medians of {num_rounds} rounds in turns, in one process; then ours divided "
        f"by vLLM's, with its range. Decode and admission: schedule() and update_from_output(). Arrival: the request "
        f"is made of its tokens, hashed and queued. {num_admissions:,} are admitted in one step and share "
        f"{SHARED_TOKENS} cached tokens. vLLM's schedule() also writes the message to its workers; our runner gets "
        f"the requests themselves. Clock: time.{CLOCK}.",
        style=FAINT,
    )


def cases_beside_vllm(lineup: Lineup, num_rounds: int, num_admissions: int) -> Iterator[dict[str, Any]]:
    """Yield each comparison when it is there, with ours over vLLM's round by round, and the median of these ratios.

    Ends the command with the last line of the process if that ends early.
    """
    command = [str(peer_process.VLLM_PYTHON), "-m", "bench.vllm_scheduler", str(lineup), f"{num_rounds}"]
    with (
        tempfile.TemporaryFile("w+") as stderr,  # a file: a pipe that is not read fills up
        subprocess.Popen(
            [*command, f"{num_admissions}"], stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=CHECKOUT
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            case = json.loads(line)
            ratios = [ours / theirs for ours, theirs in zip(case["ours"], case["theirs"], strict=True)]
            yield {**case, "ratios": ratios, "ratio": median(ratios)}
        if process.wait() != 0:
            stderr.seek(0)
            last = stderr.read().strip().splitlines()[-1:] or ["nothing"]
            fail(f"the process with vLLM's scheduler exited early; its last line: {last[0][:500]}", 1)


def show_beside(console: Console, case: dict[str, Any]) -> None:
    """Print a bar for each scheduler, and the ratio with its range."""
    ours, theirs, ratios = median(case["ours"]), median(case["theirs"]), case["ratios"]
    console.print(f"\n{case['name']}", style=STRONG, markup=False)
    figures = f"{ours:.2f} us, {case['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    console.print(measured_bar("mini-vLLM", ours, max(ours, theirs), figures, ours=True))
    console.print(measured_bar(case["peer"], theirs, max(ours, theirs), f"{theirs:.2f} us", ours=False))
